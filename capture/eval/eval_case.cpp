#include "capture/eval/eval_case.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/error.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/study/study_results.h"
#include "capture/eval/haystack.h"
#include "capture/eval/stored_prompt.h"
#include "capture/eval/study_case.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/read_file.h"

namespace kvloupe {

namespace {
using PlainJson = nlohmann::json;
constexpr std::uintmax_t kLargest = 256U << 20U;
constexpr int kLongestAnswer = 1000;  // as of a template

/// A member of the settings or of a run; another type is another program's file.
template <typename T>
T value_of(const PlainJson& json, const char* name, const std::filesystem::path& path) {
  try {
    return json.at(name).get<T>();
  } catch (const PlainJson::exception&) {
    throw FileError(path.string(), std::string("has no usable \"") + name +
                                       "\"; run the evaluation again with this version");
  }
}
/// The prompt that the results carry.
void take_stored(const PlainJson& json, const PlainJson& run, const std::filesystem::path& path,
                 EvalCase& result) {
  const auto number = value_of<std::size_t>(run, "prompt", path);
  const PlainJson prompts = json.value("prompts", PlainJson());
  if (!prompts.is_array() || number >= prompts.size()) {
    throw FileError(path.string(), "has no prompt " + std::to_string(number) +
                                       "; run the evaluation again with this version");
  }
  result.tokens = read_stored_prompt(prompts[number], path);
  result.answer_tokens = value_of<int>(prompts[number], "answer_tokens", path);
  if (result.answer_tokens < 1 || result.answer_tokens > kLongestAnswer)
    throw FileError(path.string(), "has \"answer_tokens\" out of range; run the evaluation again");
}

/// The prompt of a run of an earlier version, from the template and the tokenizer.
void make_again(const EvalCaseRequest& request, const PlainJson& settings, const PlainJson& run,
                const EvaluationRun& known, EvalCase& result) {
  const std::filesystem::path& path = request.results;
  const NeedleTemplate needles =
      needle_template_of(request.model.path, request.needle_template, request.filler);
  const bool same =
      value_of<std::string>(settings, "needle", path) == needles.needle &&
      value_of<std::string>(settings, "question", path) == needles.question &&
      value_of<std::size_t>(settings, "filler_sentences", path) == needles.filler.size();
  if (!same) {
    throw FileError(path.string(), "was made with another template or filler than " +
                                       request.model.path.string() +
                                       " has; give --template and --filler as for the evaluation");
  }
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(request.model.tokenizer_place());
  const Haystack haystack(needles, *tokenizer, value_of<std::uint64_t>(settings, "seed", path));
  const NeedleTask task = haystack.needle(
      {static_cast<int>(known.length), known.depth, value_of<int>(run, "sample", path)},
      value_of<int>(settings, "needles", path));
  if (task.answer != result.expected ||
      static_cast<double>(task.tokens.ids.size()) != known.tokens) {
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
  const Evaluation evaluation = read_evaluation(path);  // checks the file
  if (evaluation.task != Evaluation::Task::needle)
    throw FileError(path.string(), "has no needles; give results of eval --task needle");
  const int rows = static_cast<int>(evaluation.runs.size());
  if (request.row < 0 || request.row >= rows) {
    throw UsageError("--row " + std::to_string(request.row) + ": the file has runs 0 to " +
                     std::to_string(rows - 1));
  }
  const PlainJson json = PlainJson::parse(read_file(path.string(), kLargest));
  const PlainJson& settings = json.at("settings");
  const PlainJson& run = json.at("runs").at(static_cast<std::size_t>(request.row));

  const EvaluationRun& known = evaluation.runs[static_cast<std::size_t>(request.row)];

  EvalCase result;
  result.expected = value_of<std::string>(run, "expected", path);
  if (run.contains("prompt")) {
    take_stored(json, run, path, result);
  } else {
    make_again(request, settings, run, known, result);
  }
  if (static_cast<double>(result.tokens.ids.size()) != known.tokens) {
    throw FileError(path.string(), "run " + std::to_string(request.row) +
                                       " has another number of tokens than its prompt; run the "
                                       "evaluation again");
  }
  result.policy = known.policy;
  result.budget = known.budget;
  result.probe = run.value("probe", "");
  result.block = value_of<int>(settings, "block", path);
  result.dtype = value_of<std::string>(settings, "dtype", path);
  result.positions = settings.value("positions", "original") == "compact" ? Positions::compact
                                                                          : Positions::original;
  result.context_only = settings.value("compression", "regular") == "context-only";
  return result;
}

}  // namespace kvloupe
