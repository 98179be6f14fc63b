#include "capture/eval/study_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/error.h"
#include "analysis/json_depth.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/study/study_results.h"
#include "analysis/trace/model_fingerprint.h"
#include "capture/eval/stored_prompt.h"

namespace kvloupe {

namespace {
using PlainJson = nlohmann::json;
constexpr int kLongestAnswer = 4096;  // as of kvloupe-capture run --generate

PlainJson parsed(const std::string& text) {
  return is_deep_json(text) ? PlainJson() : PlainJson::parse(text, nullptr, false);
}

std::vector<std::string> answers_of(const std::string& text, const std::filesystem::path& path) {
  std::vector<std::string> answers;
  if (text.empty()) return answers;
  const PlainJson list = parsed(text);
  const bool texts = list.is_array() && !list.empty() &&
                     std::all_of(list.begin(), list.end(), [](const PlainJson& one) {
                       return one.is_string() && !one.get_ref<const std::string&>().empty();
                     });
  if (!texts) throw FileError(path.string(), "has a run whose answers cannot be read");
  return list.get<std::vector<std::string>>();
}
}  // namespace

void check_model_of(const std::string& fingerprint, const EvalCaseRequest& request) {
  Progress progress;
  if (fingerprint.empty()) return;
  const std::string own = model_fingerprint(request.model.path, progress);
  if (own.empty() || own == fingerprint) return;
  throw FileError(request.results.string(),
                  "is of another model than " + request.model.path.string() +
                      ", for which its token ids may mean another text; give the model that it is "
                      "of, or the text with --prompt");
}

EvalCase study_case(const EvalCaseRequest& request) {
  const std::filesystem::path& path = request.results;
  StudyResults results(path);
  const std::vector<StudyResults::Item> items = results.items();
  if (request.row < 0 || request.row >= static_cast<int>(items.size())) {
    throw UsageError(fmt::format("--row {}: the study has items 0 to {}", request.row,
                                 static_cast<int>(items.size()) - 1));
  }
  const StudyResults::Item& item = items[static_cast<std::size_t>(request.row)];
  if (item.task == kReplayTask) {
    throw UsageError(fmt::format(
        "--row {}: is a replay of {}; capture with --from that trace, or name an item of a task",
        request.row, item.trace));
  }
  if (item.state != "done") {
    throw UsageError(fmt::format("--row {}: is {}; run the study first", request.row, item.state));
  }
  const StudyPrompt prompt = results.prompt(item.number);
  if (prompt.stored.empty()) {
    throw FileError(path.string(),
                    "was written by an earlier kvloupe, which kept no prompts; run the study again "
                    "into another file");
  }
  const PlainJson stored = parsed(prompt.stored);
  EvalCase result;
  result.tokens = read_stored_prompt(stored, path);
  if (const PlainJson model = stored.value("fingerprint", PlainJson()); model.is_string())
    check_model_of(model.get<std::string>(), request);
  const PlainJson answer_tokens = stored.value("answer_tokens", PlainJson());
  if (!answer_tokens.is_number_integer() || answer_tokens < 0 || answer_tokens > kLongestAnswer)
    throw FileError(path.string(), "has \"answer_tokens\" out of range; run the study again");
  result.answer_tokens = answer_tokens.get<int>();
  const PlainJson probe = stored.value("probe", PlainJson());
  const std::vector<std::string> answers = answers_of(prompt.expected, path);
  const bool needle = item.task == kNeedleTask;
  if (needle && !answers.empty()) result.expected = answers.front();
  if (!needle) result.answers = answers;
  result.policy = item.policy;
  result.budget = item.budget;
  if (probe.is_string() && item.policy != kFullCache &&
      has_trait(parse_policy(item.policy), &PolicyTraits::reads_probe)) {
    result.probe = probe.get<std::string>();
  }
  result.block = item.block_word == "all" ? static_cast<int>(result.tokens.ids.size()) : item.block;
  if (result.block < 1) throw FileError(path.string(), "has an item without a block");
  result.dtype = results.setting("dtype");
  result.positions =
      results.setting("positions") == "compact" ? Positions::compact : Positions::original;
  result.context_only = item.compression == compression_name(Compression::context_only);
  return result;
}

}  // namespace kvloupe
