// The results file of an evaluation: one description of its fields, for the reader and the writer.

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/user_files.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/evaluation/fields.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"
#include "version.h"

namespace kvloupe {

namespace {

using results::Fields;
using results::Json;
using results::kAnyNumber;
using results::line_of;
using results::Wrong;

using Task = Evaluation::Task;

constexpr const char* kEvalFormat = "kvloupe-eval";
constexpr int kEvalVersion = 1;
constexpr double kLargestCount = 1e12;

void describe_settings(Fields& fields, EvaluationSettings& settings) {
  bool perplexity = settings.task == Task::perplexity;
  fields.either("task", perplexity, "needle", "perplexity", Fields::refused);
  settings.task = perplexity ? Task::perplexity : Task::needle;
  fields.text("model", settings.model);
  fields.text("dtype", settings.dtype);
  fields.whole("block", settings.block, 1.0, 1 << 30, Fields::written);
  fields.either("positions", settings.compact, "original", "compact");
  fields.text("chat", settings.chat, Fields::not_written);
  fields.whole("seed", settings.seed, 0.0, kAnyNumber, Fields::written);
  fields.whole("filler_sentences", settings.filler_sentences, 0.0, 1 << 30, Fields::written);
  if (perplexity) return;
  fields.whole("needles", settings.needles, 0.0, 1 << 30, Fields::written);
  fields.either("compression", settings.context_only, "regular", "context-only");
  fields.text("needle", settings.needle);
  fields.text("question", settings.question);
}

/// Hidden states' distances are missing in results of earlier versions.
void describe_run(Fields& fields, EvaluationRun& run, Task task) {
  const bool needle = task == Task::needle;
  fields.text("policy", run.policy, Fields::refused);
  fields.text("budget", run.budget, Fields::refused);
  fields.text("policy_files", run.policy_files, Fields::not_written);
  fields.text("probe", run.probe, Fields::not_written);
  fields.whole("entries", run.entries, 0.0, kLargestCount);
  fields.whole("length", run.length, 1.0, kLargestCount);
  if (needle) fields.number("depth", run.depth, 0.0, 100.0);
  fields.whole("sample", run.sample, 0.0, kLargestCount, Fields::not_written);
  fields.whole("tokens", run.tokens, 1.0, kLargestCount);
  if (needle) {
    fields.text("expected", run.expected);
    fields.text("answer", run.answer);
    if (fields.reads()) {
      fields.number("correct", run.correct, 0.0, 1.0);
    } else {
      fields.write("correct") = run.correct == 1.0;
    }
  } else {
    fields.number("loss", run.loss);
    fields.number("loss_difference", run.loss_difference, -kAnyNumber, kAnyNumber,
                  Fields::not_written);
    fields.number("kl", run.kl, -kAnyNumber, kAnyNumber, Fields::not_written);
    fields.number("same_top1", run.same_top1, 0.0, 1.0, Fields::not_written);
  }
  fields.numbers("hidden_distance", run.hidden.layers, 0.0, kAnyNumber);
  fields.numbers("hidden_cosine_distance", run.hidden_cosine.layers, 0.0, 2.0);
  fields.number("normed_distance", run.hidden.normed, 0.0, kAnyNumber, Fields::not_written);
  fields.number("normed_cosine_distance", run.hidden_cosine.normed, 0.0, 2.0, Fields::not_written);
  fields.whole("prompt", run.prompt, 0.0, 1 << 30, Fields::not_written);
  fields.number("seconds", run.seconds, 0.0, kAnyNumber, Fields::not_written);
}

/// Is written only: readers compute it.
void describe_summary(Fields& fields, EvaluationSummary& line) {
  EvaluationRun& mean = line.mean;
  fields.text("policy", mean.policy);
  fields.text("budget", mean.budget);
  fields.whole("runs", line.runs, 1.0, kLargestCount);
  const auto number = [&](const char* name, double value,
                          Fields::Missing missing = Fields::written) {
    fields.number(name, value, -kAnyNumber, kAnyNumber, missing);
  };
  number("accuracy", mean.correct, Fields::not_written);
  if (!std::isnan(mean.loss)) {
    number("loss", mean.loss);
    number("perplexity", std::exp(mean.loss));
    number("loss_difference", mean.loss_difference);
    number("kl", mean.kl);
    number("same_top1", mean.same_top1);
  }
  if (mean.hidden.layers.empty()) return;
  fields.numbers("hidden_distance", mean.hidden.layers, 0.0, kAnyNumber);
  fields.numbers("hidden_cosine_distance", mean.hidden_cosine.layers, 0.0, 2.0);
  number("normed_distance", mean.hidden.normed);
  number("normed_cosine_distance", mean.hidden_cosine.normed);
}

/// An error names the number of the run.
EvaluationRun read_run(const Json& json, std::size_t number, Task task) {
  EvaluationRun run;
  try {
    if (!json.is_object()) throw Wrong("is not an object");
    Fields fields(json);
    describe_run(fields, run, task);
  } catch (const Wrong& error) {
    throw Wrong(fmt::format("run {} {}; run the evaluation again", number, error.what()));
  }
  return run;
}

void read_runs(const Json& json, Evaluation& evaluation) {
  const Json said = json.value("settings", Json());
  const Json settings = said.is_object() ? said : Json::object();
  Fields fields(settings);
  describe_settings(fields, evaluation);
  const Json runs = json.value("runs", Json());
  if (!runs.is_array() || runs.empty())
    throw Wrong("has no runs; let the evaluation finish at least one");
  for (const Json& run : runs)
    evaluation.runs.push_back(read_run(run, evaluation.runs.size(), evaluation.task));
  const auto layers = static_cast<std::size_t>(evaluation.layers());
  for (std::size_t i = 0; i < evaluation.runs.size(); ++i) {
    for (const auto distances : {&EvaluationRun::hidden, &EvaluationRun::hidden_cosine}) {
      const std::size_t own = (evaluation.runs[i].*distances).layers.size();
      if (own == 0 || own == layers) continue;
      throw Wrong(
          fmt::format("run {} has hidden states after {} layers, another run after {}; run the "
                      "evaluation again",
                      i, own, layers));
    }
  }
  const auto prompts = json.find("prompts");
  if (prompts == json.end() || !prompts->is_array()) return;
  for (const Json& prompt : *prompts) evaluation.prompts.push_back(line_of(prompt));
}

}  // namespace

nlohmann::ordered_json run_json(EvaluationRun run, Task task) {
  Json json = Json::object();
  Fields fields(&json);
  describe_run(fields, run, task);
  return json;
}

void write_evaluation(const Evaluation& evaluation, const std::string& path) {
  OutputFile out(path);
  Json settings = Json::object();
  Fields fields(&settings);
  EvaluationSettings asked = evaluation;
  describe_settings(fields, asked);
  Json head = {{"format", kEvalFormat},
               {"format_version", kEvalVersion},
               {"generator", "kvloupe " KVLOUPE_VERSION}};
  if (!evaluation.fingerprint.empty()) head["fingerprint"] = evaluation.fingerprint;
  std::string text = line_of(head);
  text.back() = ',';
  out.write(text + "\n\"settings\":" + line_of(settings));
  // Each run, prompt and line of the summary in a line of its own.
  const auto write_list = [&](const char* name, const auto& values, const auto& line) {
    out.write(fmt::format(",\n\"{}\":[", name));
    const char* before = "\n";
    for (const auto& value : values) {
      out.write(before + line(value));
      before = ",\n";
    }
    out.write("]");
  };
  write_list("runs", evaluation.runs,
             [&](const EvaluationRun& run) { return line_of(run_json(run, evaluation.task)); });
  write_list("prompts", evaluation.prompts, [](const std::string& prompt) { return prompt; });
  write_list("summary", summary_of(evaluation), [](EvaluationSummary line) {
    Json json = Json::object();
    Fields own(&json);
    describe_summary(own, line);
    return line_of(json);
  });
  out.write("}\n");
  out.finish();
}

Evaluation read_evaluation(const std::filesystem::path& path) {
  Evaluation evaluation;
  evaluation.path = path;
  struct stat status = {};  // before it is read: a later one is read again
  if (stat(path.c_str(), &status) == 0) evaluation.identity = file_identity(status);
  if (is_study_results(path)) {
    evaluation.task = Task::study;
    evaluation.study = std::make_shared<const StudyTable>(read_study_table(path));
    add_study_runs(evaluation);
    return evaluation;
  }
  const Json json = results::read_json(path);
  try {
    const Json format = json.is_object() ? json.value("format", Json()) : Json();
    const bool rescue = format == Json(kRescueFormat);
    if (!rescue && format != Json(kEvalFormat)) {
      throw Wrong(
          "has no results of an evaluation; give a file written by kvloupe-capture eval or "
          "kvloupe-capture rescue, or by kvloupe study");
    }
    const Json version = json.value("format_version", Json());
    if (version.is_number_integer() && version.get<long>() > kEvalVersion)
      throw Wrong("was written by a newer kvloupe; open it with that version");
    if (version != Json(kEvalVersion))
      throw Wrong("has no format_version; run the evaluation again");
    if (rescue) {
      evaluation.task = Task::rescue;
      evaluation.rescue = rescue_results(json);
      evaluation.model = evaluation.rescue->model;
      evaluation.fingerprint = evaluation.rescue->fingerprint;
      return evaluation;
    }
    Fields(json).text("fingerprint", evaluation.fingerprint);
    read_runs(json, evaluation);
  } catch (const Wrong& error) {
    throw FileError(path.string(), error.what());
  }
  return evaluation;
}

Evaluation begun_evaluation(const std::string& path, const EvaluationSettings& settings) {
  Evaluation begun;
  static_cast<EvaluationSettings&>(begun) = settings;
  if (!std::filesystem::exists(path)) return begun;
  try {
    begun = read_evaluation(path);
  } catch (const FileError&) {
    throw FileError(path,
                    "does not contain results of this version; choose another name for the output");
  }
  if (static_cast<const EvaluationSettings&>(begun) != settings) {
    throw FileError(path,
                    "contains results of other settings (model, block, template …); give the same "
                    "settings, or choose another name for the output");
  }
  return begun;
}

bool looks_like_evaluation(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  if (is_study_results(path)) return true;
  std::ifstream in(path, std::ios::binary);
  std::string start(512, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  const auto names = [&](const char* format) {
    return start.find(fmt::format("\"{}\"", format)) != std::string::npos;
  };
  return names(kEvalFormat) || names(kRescueFormat);
}

}  // namespace kvloupe
