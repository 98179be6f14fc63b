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

namespace kvloupe {

namespace {
constexpr int kLongestTemplateAnswer = 1000;  // as of a template

[[noreturn]] void no_usable(const char* name, const std::filesystem::path& path) {
  throw FileError(path.string(), std::string("has no usable \"") + name +
                                     "\"; run the evaluation again with this version");
}

/// The prompt that the results carry.
void take_stored(const Evaluation& evaluation, int number, EvalCase& result) {
  const std::filesystem::path& path = evaluation.path;
  if (number >= static_cast<int>(evaluation.prompts.size())) {
    throw FileError(path.string(), "has no prompt " + std::to_string(number) +
                                       "; run the evaluation again with this version");
  }
  const auto prompt =
      nlohmann::json::parse(evaluation.prompts[static_cast<std::size_t>(number)], nullptr, false);
  result.tokens = read_stored_prompt(prompt, path);
  const auto answer_tokens = prompt.value("answer_tokens", nlohmann::json());
  if (!answer_tokens.is_number_integer()) no_usable("answer_tokens", path);
  if (answer_tokens < 1 || answer_tokens > kLongestTemplateAnswer)
    throw FileError(path.string(), "has \"answer_tokens\" out of range; run the evaluation again");
  result.answer_tokens = answer_tokens.get<int>();
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
  const int rows = static_cast<int>(evaluation.runs.size());
  if (request.row < 0 || request.row >= rows) {
    throw UsageError("--row " + std::to_string(request.row) + ": the file has runs 0 to " +
                     std::to_string(rows - 1));
  }
  const EvaluationRun& run = evaluation.runs[static_cast<std::size_t>(request.row)];
  check_model_of(evaluation.fingerprint, request);
  EvalCase result;
  result.expected = run.expected;
  if (run.expected.empty()) no_usable("expected", path);
  if (evaluation.block < 1) no_usable("block", path);
  if (evaluation.dtype.empty()) no_usable("dtype", path);
  if (run.prompt >= 0) {
    take_stored(evaluation, run.prompt, result);
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
