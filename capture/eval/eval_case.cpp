#include "capture/eval/eval_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/study/study_results.h"
#include "analysis/trace/model_files.h"
#include "capture/eval/haystack.h"
#include "capture/eval/stored_prompt.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {
using PlainJson = nlohmann::json;

PlainJson parsed(const std::string& text) {
  return is_deep_json(text) ? PlainJson() : PlainJson::parse(text, nullptr, false);
}

[[noreturn]] void no_usable(const char* name, const std::filesystem::path& path) {
  throw FileError(path.string(), std::string("has no usable \"") + name +
                                     "\"; run the evaluation or study again with this version");
}

/// Throws UsageError for a row that results with so many rows do not have.
void check_row(int row, std::size_t rows, const char* what) {
  if (row >= 0 && static_cast<std::size_t>(row) < rows) return;
  throw UsageError(fmt::format("--row {}: the {} 0 to {}", row, what, static_cast<int>(rows) - 1));
}

/// The prompt that results carry.
void take_stored(const PlainJson& prompt, const std::filesystem::path& path, EvalCase& result) {
  constexpr int kLongestAnswer = 4096;  // as of kvloupe-capture run --generate
  result.tokens = read_stored_prompt(prompt, path);
  const PlainJson answer_tokens = prompt.value("answer_tokens", PlainJson());
  if (!answer_tokens.is_number_integer() || answer_tokens < 0 || answer_tokens > kLongestAnswer)
    no_usable("answer_tokens", path);
  result.answer_tokens = answer_tokens.get<int>();
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

/// Throws FileError where results are of a model with another fingerprint than the request's: they
/// hold token ids, which may mean another text there. Empty: not known.
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

/// eval_case() of the results of a study: its item of that number, with the prompt that it kept.
EvalCase study_case(const EvalCaseRequest& request) {
  const std::filesystem::path& path = request.results;
  StudyResults results(path);
  const std::vector<StudyResults::Item> items = results.items();
  check_row(request.row, items.size(), "study has items");
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
  take_stored(stored, path, result);
  if (const PlainJson model = stored.value("fingerprint", PlainJson()); model.is_string())
    check_model_of(model.get<std::string>(), request);
  const PlainJson probe = stored.value("probe", PlainJson());
  const std::vector<std::string> answers = answers_of(prompt.expected, path);
  const bool needle = item.task == kNeedleTask;
  if (needle && !answers.empty()) result.expected = answers.front();
  if (!needle) result.answers = answers;
  result.policy = item.policy;
  result.budget = item.budget;
  if (const std::string context = context_of(item.trace);
      context != item.trace && item.policy != kFullCache) {
    result.budget = std::to_string(item.entries);  // of the prompt with the first question
    if (item.compression == compression_name(Compression::regular) &&
        !item.trace.ends_with(".q0")) {
      throw UsageError(fmt::format(
          "--row {}: is a later question after the first one's compression; name the item of the "
          "first, or run the study with context-only",
          request.row));
    }
  }
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

/// The prompt of a run of an earlier version, from the template and the tokenizer.
void make_again(const EvalCaseRequest& request, const EvaluationSettings& settings,
                const EvaluationRun& run, EvalCase& result) {
  const std::filesystem::path& path = request.results;
  const NeedleTemplate needles =
      needle_template_of(request.model.path, request.needle_template, request.filler);
  const bool same = settings.needle == needles.needle && settings.question == needles.question &&
                    settings.filler_sentences == static_cast<int>(needles.filler.size());
  if (!same) {
    throw FileError(path.string(), "was made with another template or filler than " +
                                       request.model.path.string() +
                                       " has; give --template and --filler as for the evaluation");
  }
  if (std::isnan(run.sample)) no_usable("sample", path);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(request.model.tokenizer_place());
  const NeedleTask task =
      Haystack(needles, *tokenizer, settings.seed)
          .needle({static_cast<int>(run.length), run.depth, static_cast<int>(run.sample)},
                  settings.needles);
  if (task.answer != result.expected || static_cast<double>(task.tokens.ids.size()) != run.tokens) {
    throw FileError(path.string(), "run " + std::to_string(request.row) +
                                       " has another prompt than the tokenizer of " +
                                       request.model.path.string() +
                                       " makes; is this the model that was evaluated?");
  }
  result.tokens = task.tokens;
  result.answer_tokens = needles.answer_tokens;
}
}  // namespace

EvalCase eval_case(const EvalCaseRequest& request) {
  const std::filesystem::path& path = request.results;
  if (is_study_results(path)) return study_case(request);
  const Evaluation evaluation = read_evaluation(path);
  if (evaluation.task != Evaluation::Task::needle)
    throw FileError(path.string(), "has no needles; give results of eval --task needle");
  check_row(request.row, evaluation.runs.size(), "file has runs");
  const EvaluationRun& run = evaluation.runs[static_cast<std::size_t>(request.row)];
  check_model_of(evaluation.fingerprint, request);
  EvalCase result;
  result.expected = run.expected;
  if (run.expected.empty()) no_usable("expected", path);
  if (evaluation.block < 1) no_usable("block", path);
  if (evaluation.dtype.empty()) no_usable("dtype", path);
  if (run.prompt >= 0) {
    if (run.prompt >= std::ssize(evaluation.prompts)) no_usable("prompt", path);
    take_stored(parsed(evaluation.prompts[static_cast<std::size_t>(run.prompt)]), path, result);
  } else {
    make_again(request, evaluation, run, result);
  }
  if (static_cast<double>(result.tokens.ids.size()) != run.tokens) {
    throw FileError(path.string(), "run " + std::to_string(request.row) +
                                       " has another number of tokens than its prompt; run the "
                                       "evaluation again");
  }
  result.policy = run.policy;
  result.budget = run.budget;
  result.probe = run.probe;
  result.block = evaluation.block;
  result.dtype = evaluation.dtype;
  result.positions = evaluation.compact ? Positions::compact : Positions::original;
  result.context_only = evaluation.context_only;
  return result;
}

}  // namespace kvloupe
