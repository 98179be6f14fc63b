#include "capture/eval/eval_case.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/error.h"
#include "analysis/evaluation/evaluation.h"
#include "capture/eval/haystack.h"
#include "capture/tokenizer/read_file.h"

namespace kvloupe {

namespace {
using Json = nlohmann::json;
constexpr std::uintmax_t kLargest = 256U << 20U;

/// A member of the settings or of a run; another type is another program's file.
template <typename T>
T value_of(const Json& json, const char* name, const std::filesystem::path& path) {
  try {
    return json.at(name).get<T>();
  } catch (const Json::exception&) {
    throw FileError(path.string(), std::string("has no usable \"") + name +
                                       "\"; run the evaluation again with this version");
  }
}
}  // namespace

EvalCase eval_case(const EvalCaseRequest& request) {
  const std::filesystem::path& path = request.results;
  const Evaluation evaluation = read_evaluation(path);  // checks the file
  if (evaluation.task != Evaluation::Task::needle)
    throw FileError(path.string(), "has no needles; give results of eval --task needle");
  const int rows = static_cast<int>(evaluation.runs.size());
  if (request.row < 0 || request.row >= rows) {
    throw UsageError("--row " + std::to_string(request.row) + ": the file has runs 0 to " +
                     std::to_string(rows - 1));
  }
  const Json json = Json::parse(read_file(path.string(), kLargest));
  const Json& settings = json.at("settings");
  const Json& run = json.at("runs").at(static_cast<std::size_t>(request.row));

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
  const EvaluationRun& known = evaluation.runs[static_cast<std::size_t>(request.row)];
  const NeedleTask task = haystack.needle(
      {static_cast<int>(known.length), known.depth, value_of<int>(run, "sample", path)},
      value_of<int>(settings, "needles", path));

  EvalCase result;
  result.expected = value_of<std::string>(run, "expected", path);
  if (task.answer != result.expected ||
      static_cast<double>(task.tokens.ids.size()) != known.tokens) {
    throw FileError(path.string(), "run " + std::to_string(request.row) +
                                       " has another prompt than the tokenizer of " +
                                       request.model.path.string() +
                                       " makes; is this the model that was evaluated?");
  }
  result.tokens = task.tokens;
  result.policy = known.policy;
  result.budget = known.budget;
  result.probe = run.value("probe", "");
  result.block = value_of<int>(settings, "block", path);
  result.dtype = value_of<std::string>(settings, "dtype", path);
  result.positions = settings.value("positions", "original") == "compact" ? Positions::compact
                                                                          : Positions::original;
  result.context_only = settings.value("compression", "regular") == "context-only";
  result.answer_tokens = needles.answer_tokens;
  return result;
}

}  // namespace kvloupe
