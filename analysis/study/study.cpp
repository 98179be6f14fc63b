#include "analysis/study/study.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/policy_files.h"
#include "analysis/policy/random_line.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/study/study_measures.h"
#include "analysis/trace/model_files.h"

namespace kvloupe {

namespace {
namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* kReduces[] = {"none", "steps", "heads", "all"};  // as Reduce has them
constexpr const char* kFields[] = {"traces",   "policies",     "budgets",   "blocks",
                                   "measures", "reduce",       "model",     "prompts",
                                   "tasks",    "dtype",        "positions", "compression",
                                   "probe",    "random_lines", "chat",      "system"};
constexpr const char* kTaskFields[] = {"task",    "lengths", "depths", "samples",
                                       "needles", "seed",    "tokens", "prompts"};
constexpr long kMostTokens = 1L << 24U;  // of a generated prompt

json read_json(const fs::path& path) {
  std::error_code error;
  constexpr std::uintmax_t kMostBytes = 16U << 20U;
  if (!fs::is_regular_file(path, error)) {
    throw FileError(path.string(), "is not a file; give the study's JSON file");
  }
  if (fs::file_size(path, error) > kMostBytes) {
    throw FileError(path.string(), "is too large for a study file; at most 16 MB are read");
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw FileError(path.string(), "cannot be read; check its permissions");
  if (is_deep_json(text)) throw FileError(path.string(), "is nested too deeply for a study");
  json document = json::parse(text, nullptr, false);
  if (!document.is_object()) {
    throw FileError(path.string(), "is not a JSON object; see docs/studies.md for an example");
  }
  return document;
}

/// The fields of one study file.
class Fields {
 public:
  explicit Fields(const fs::path& path) : path_(path.string()), document_(read_json(path)) {
    for (const auto& [name, value] : document_.items()) {
      if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields)) {
        fail(in_quotes(name),
             fmt::format("is not a field of a study; the fields are {}", fmt::join(kFields, ", ")));
      }
    }
  }

  [[noreturn]] void fail(const std::string& where, const std::string& problem) const {
    throw FileError(path_, where + ": " + problem);
  }
  bool has(const char* field) const { return document_.contains(field); }

  /// Calls `take` with each value of a list, as text; a failure names the field and the value.
  /// Texts that are there twice are refused.
  void each(const char* field, const std::function<void(const std::string&)>& take) const {
    const auto list = document_.find(field);
    each(list == document_.end() ? json() : *list, field, take);
  }
  /// The same for a list of a part of the file.
  void each(const json& list, const char* field,
            const std::function<void(const std::string&)>& take) const {
    if (!list.is_array() || list.empty()) fail(field, "write a list with at least one value");
    std::vector<std::string> seen;
    for (const json& value : list) {
      if (!value.is_string() && !value.is_number_integer()) {
        fail(field, "write texts or whole numbers, not " + in_quotes(value.dump()));
      }
      seen.push_back(value.is_string() ? value.get<std::string>() : value.dump());
      if (std::count(seen.begin(), seen.end(), seen.back()) > 1) {
        fail(field, in_quotes(seen.back()) + " is there twice; keep one");
      }
      within(field, [&] { take(seen.back()); });
    }
  }
  const json& at(const char* field) const { return document_.at(field); }
  std::string text(const char* field) const {
    const json& value = document_.at(field);
    if (!value.is_string() || value.get<std::string>().empty()) fail(field, "write a text");
    return value.get<std::string>();
  }
  /// Whether a field is there and true.
  bool truth(const char* field) const {
    if (!has(field)) return false;
    if (!document_.at(field).is_boolean()) fail(field, "write true or false");
    return document_.at(field).get<bool>();
  }
  /// A text that is one of some words.
  std::string word(const char* field, const std::vector<std::string>& words) const {
    const json& value = document_.at(field);
    const std::string word = value.is_string() ? value.get<std::string>() : "";
    if (value.is_string() && std::count(words.begin(), words.end(), word) > 0) return word;
    fail(field, fmt::format("write one of {}", fmt::join(words, ", ")));
  }
  /// Turns a refusal of a part of the content into an error of the file.
  void within(const char* field, const std::function<void()>& work) const {
    try {
      work();
    } catch (const UsageError& error) {
      fail(field, in_one_line(error.what(), 400));
    }
  }

 private:
  std::string path_;
  json document_;
};

/// A text as a part of a glob that matches only itself.
std::string without_wildcards(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// The files that a name from a folder stands for, sorted by their bytes in every language.
std::vector<fs::path> matches(const fs::path& folder, const std::string& name) {
  glob_t found = {};
  const std::string pattern =
      fs::path(name).is_absolute() ? name : without_wildcards(folder.string()) + "/" + name;
  std::vector<fs::path> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

fs::path folder_of(const fs::path& study) {
  return study.has_parent_path() ? study.parent_path() : fs::path(".");
}

/// The files that a field names, each once, in the order of the names.
std::vector<StudyTrace> find_files(const Fields& fields, const json& list, const char* field,
                                   const fs::path& study) {
  const fs::path folder = folder_of(study);
  std::vector<StudyTrace> traces;
  const auto add = [&](const std::string& name, const fs::path& path) {
    const bool known = std::any_of(traces.begin(), traces.end(), [&](const StudyTrace& one) {
      return one.path.lexically_normal() == path.lexically_normal();
    });
    if (!known) traces.push_back({name, path});
  };
  fields.each(list, field, [&](const std::string& name) {
    std::error_code error;
    if (const fs::path one = folder / name; fs::exists(one, error)) return add(name, one);
    const bool pattern = name.find_first_of("*?[") != std::string::npos;
    const std::vector<fs::path> paths = pattern ? matches(folder, name) : std::vector<fs::path>();
    if (paths.empty()) {
      fields.fail(field, in_quotes(name, 200) + (pattern ? " matches no file" : " is missing") +
                             "; names start at the folder of the study file");
    }
    for (const fs::path& path : paths) {
      add(fs::path(name).is_absolute() ? path.string() : path.lexically_relative(folder).string(),
          path);
    }
  });
  return traces;
}

std::vector<PromptPlace> find_prompt_places(const Fields& fields, const json& list,
                                            const fs::path& study) {
  std::vector<PromptPlace> prompts;
  for (const StudyTrace& file : find_files(fields, list, "prompts", study)) {
    for (PromptPlace& place : find_prompts(file.path, file.name))
      prompts.push_back(std::move(place));
  }
  return prompts;
}

/// A task as the file says it: its name, or an object with its settings.
class TaskFields {
 public:
  TaskFields(const Fields& fields, json value) : fields_(fields), value_(std::move(value)) {
    if (value_.is_string()) value_ = {{"task", value_}};
    if (!value_.is_object())
      fields_.fail("tasks", "write names of tasks, or objects with \"task\"");
    for (const auto& [name, one] : value_.items()) {
      if (std::find(std::begin(kTaskFields), std::end(kTaskFields), name) ==
          std::end(kTaskFields)) {
        fields_.fail("tasks", fmt::format("{} is not a field of a task; the fields are {}",
                                          in_quotes(name), fmt::join(kTaskFields, ", ")));
      }
    }
  }
  bool has(const char* field) const { return value_.contains(field); }
  const json& at(const char* field) const { return value_.at(field); }
  std::string name() const {
    const json name = value_.value("task", json());
    constexpr const char* kTasks[] = {kNeedleTask, kAnswerTask, kPerplexityTask, kDriftTask};
    for (const char* known : kTasks) {
      if (name == json(known)) return known;
    }
    fields_.fail("tasks", fmt::format("{} is not a task; the tasks are {}", in_quotes(name.dump()),
                                      fmt::join(kTasks, ", ")));
  }
  /// Numbers of a list between two ends, whole where `whole`.
  std::vector<double> numbers(const char* field, double least, double most, bool whole) const {
    const json& list = value_.at(field);
    if (!list.is_array() || list.empty()) wrong(field, "write a list with at least one number");
    std::vector<double> numbers;
    for (const json& one : list) numbers.push_back(number(field, one, least, most, whole));
    std::vector<double> sorted = numbers;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      wrong(field, "a number is there twice; keep one");
    return numbers;
  }
  long number(const char* field, long least, long most) const {
    return static_cast<long>(number(field, value_.at(field), static_cast<double>(least),
                                    static_cast<double>(most), true));
  }
  [[noreturn]] void wrong(const char* field, const std::string& why) const {
    fields_.fail("tasks", fmt::format("\"{}\": {}", field, why));
  }

 private:
  double number(const char* field, const json& value, double least, double most, bool whole) const {
    const bool right = whole ? value.is_number_integer() : value.is_number();
    if (!right || !(value.get<double>() >= least && value.get<double>() <= most)) {
      wrong(field, fmt::format("{} is not a {}number from {} to {}", in_quotes(value.dump()),
                               whole ? "whole " : "", least, most));
    }
    return value.get<double>();
  }

  const Fields& fields_;
  json value_;
};

ModelTask task_of(const Fields& fields, const json& value, bool prompts, const fs::path& study) {
  const TaskFields from(fields, value);
  ModelTask task;
  task.task = from.name();
  const bool needles = task.task == kNeedleTask;
  if (from.has("prompts")) {
    if (needles || from.has("lengths"))
      from.wrong("prompts", "the prompts of this task are generated");
    task.prompts = find_prompt_places(fields, from.at("prompts"), study);
    prompts = true;
  }
  const bool answers = task.task == kAnswerTask;
  if (answers && !prompts)
    from.wrong("task", "answers need \"prompts\" with answers, in JSON lines");
  if (answers && from.has("lengths")) from.wrong("lengths", "answers are to the study's prompts");
  if (from.has("tokens")) {
    if (!answers) from.wrong("tokens", "only the task answer has tokens");
    task.tokens = static_cast<int>(from.number("tokens", 1, 1L << 16U));
  }
  if (from.has("lengths")) {
    for (const double length : from.numbers("lengths", 2.0, double{kMostTokens}, true))
      task.lengths.push_back(static_cast<int>(length));
  } else if (needles || !prompts) {
    from.wrong("lengths", needles ? "write the lengths of the prompts, such as [512, 1024]"
                                  : "write the lengths of generated prompts, or give \"prompts\"");
  }
  if (from.has("depths")) {
    if (!needles) from.wrong("depths", "only the task needle has depths");
    task.depths = from.numbers("depths", 0.0, 100.0, false);
  } else if (needles) {
    task.depths = {0.0, 25.0, 50.0, 75.0, 100.0};
  }
  if (from.has("samples")) task.samples = static_cast<int>(from.number("samples", 1, 1L << 20U));
  if (from.has("needles")) {
    if (!needles) from.wrong("needles", "only the task needle has needles");
    task.needles = static_cast<int>(from.number("needles", 1, 1000));
  }
  if (from.has("seed")) {
    task.seed = static_cast<std::uint64_t>(from.number("seed", 0, 1L << 52U));
  }
  return task;
}

/// Whether the policies can run in a model, in these tasks and blocks.
void check_policies(const Fields& fields, const Study& study) {
  fields.within("policies", [&] { check_task_policies(study); });
  for (const PolicySpec& policy : study.policies) {
    if (!has_trait(policy, &PolicyTraits::reads_probe)) continue;
    for (const int block : study.blocks) {
      if (block == kWholePrompt) continue;
      fields.fail("blocks", policy.text() +
                                " reads the context a second time before it evicts, so runs read "
                                "it as one block; write [\"all\"]");
    }
  }
}

void read_runs(const Fields& fields, const fs::path& path, Study& study) {
  for (const char* field : {"model", "prompts", "dtype", "positions", "probe", "chat", "system"}) {
    if (!fields.has("tasks") && fields.has(field))
      fields.fail(field, "runs in the model need \"tasks\", such as [\"drift\"]");
  }
  if (!fields.has("tasks")) return;
  if (!fields.has("model")) fields.fail("model", "write the folder of the model that tasks run in");
  study.model = fields.text("model");
  study.model_path = folder_of(path) / study.model;
  if (fields.has("prompts")) {
    study.prompts = find_prompt_places(fields, fields.at("prompts"), path);
  }
  const json& tasks = fields.at("tasks");
  if (!tasks.is_array() || tasks.empty()) fields.fail("tasks", "write a list of tasks");
  for (const json& task : tasks) {
    study.tasks.push_back(task_of(fields, task, !study.prompts.empty(), path));
    for (std::size_t i = 0; i + 1 < study.tasks.size(); ++i) {
      if (study.tasks[i].task == study.tasks.back().task)
        fields.fail("tasks", in_quotes(study.tasks.back().task) + " is there twice; keep one");
    }
  }
  if (fields.has("dtype")) study.dtype = fields.word("dtype", {"auto", "f32", "bf16"});
  if (fields.has("positions"))
    study.compact = fields.word("positions", {"original", "compact"}) == "compact";
  if (fields.has("probe")) study.probe = fields.word("probe", {"repeat", "reread"});
  study.chat = fields.truth("chat");
  if (fields.has("system")) study.system = fields.text("system");
  if (!study.chat && !study.system.empty())
    fields.fail("system", "is a part of a chat; write \"chat\": true");
  check_policies(fields, study);
  std::error_code error;
  if (!fs::is_directory(study.model_path, error) && !is_gguf_file(study.model_path)) {
    fields.fail("model", in_quotes(study.model, 200) +
                             " is neither a folder nor a GGUF file; names start at the folder of "
                             "the study file");
  }
}
}  // namespace

std::vector<std::string> default_measures() {
  return {"answer_residual_change",
          "answer_residual_part",
          "answer_kept_attention",
          "answer_worst_layer_error",
          "question_residual_change",
          "later_residual_change",
          "retained"};
}

std::vector<std::string> measures_of(const Study& study) {
  std::vector<std::string> measures = study.measures;
  for (const ModelTask& task : study.tasks) {
    for (const StudyMeasure& one : task_measures()) {
      if (one.task == task.task) measures.push_back(one.name);
    }
  }
  return measures;
}

const char* reduce_name(Reduce reduce) { return kReduces[static_cast<std::size_t>(reduce)]; }

std::string block_text(int block) {
  if (block == kWholePrompt) return "all";
  return block == 0 ? "capture" : std::to_string(block);
}

PolicySpec Study::computed(const PolicySpec& policy) const {
  return with_files_from(fs::absolute(folder_of(path)).lexically_normal(), policy);
}

void check_task_policies(const Study& study) {
  const auto any = [&](const auto& is) {
    return std::any_of(study.tasks.begin(), study.tasks.end(), is);
  };
  const bool perplexity = any([](const ModelTask& task) { return task.task == kPerplexityTask; });
  if (study.chat && perplexity)
    throw UsageError("chat: the task perplexity reads texts as they are; leave one of the two out");
  // Tasks in which the policy never acts on a generated token.
  const bool only_reads =
      study.compression == Compression::context_only || any([](const ModelTask& task) {
        return task.task != kNeedleTask && task.task != kAnswerTask;
      });
  for (const PolicySpec& policy : study.policies) {
    if (keeps_everything(policy)) continue;
    const PolicySpec computed = study.computed(policy);
    check_closed_loop(computed, !perplexity, true);
    if (only_reads) check_run(computed, without_generated());
    check_combination(computed);
  }
}

Study read_study(const std::filesystem::path& path) {
  const Fields fields(path);
  Study study;
  study.path = path;
  fields.each("policies", [&](const std::string& text) {
    PolicySpec policy = parse_policy(text);
    check_combination(study.computed(policy));
    if (std::count(study.policies.begin(), study.policies.end(), policy) > 0) {
      throw UsageError(in_quotes(text) + " is another way to write " + in_quotes(policy.text()) +
                       ", which is there; keep one");
    }
    study.policies.push_back(std::move(policy));
  });
  if (fields.truth("random_lines")) {
    for (PolicySpec& line : random_lines(study.policies)) study.policies.push_back(std::move(line));
  }
  fields.each("budgets", [&](const std::string& text) {
    study.budgets.push_back(parse_budget(text));
    study.budgets.back().resolve(1 << 20U);  // refuses 0
  });
  if (fields.has("blocks")) {
    study.blocks.clear();
    fields.each("blocks", [&](const std::string& text) {
      const auto block = block_in(text, kWholePrompt);
      if (!block)
        throw UsageError("block " + in_quotes(text) +
                         ": write a number of tokens, at least 1, or \"all\"");
      study.blocks.push_back(*block);
    });
  }
  if (fields.has("compression")) {
    const std::string word = fields.word("compression", {"regular", "context-only"});
    study.compression = word == "regular" ? Compression::regular : Compression::context_only;
  }
  const bool replays = fields.has("traces");
  if (!replays && !fields.has("tasks"))
    fields.fail("traces", "write traces to replay, or a model and tasks to run in it");
  if (replays && !fields.has("measures")) {
    study.measures = default_measures();
  } else if (replays) {
    fields.each("measures", [&](const std::string& name) {
      require_measure(name);
      study.measures.push_back(name);
    });
  } else if (fields.has("measures")) {
    fields.fail("measures", "are of replays, and the study has no traces; tasks have their own");
  }
  if (fields.has("reduce")) {
    const std::string word = fields.word("reduce", {std::begin(kReduces), std::end(kReduces)});
    study.reduce = static_cast<Reduce>(std::find(std::begin(kReduces), std::end(kReduces), word) -
                                       std::begin(kReduces));
  }
  // Last: errors of the file itself come first.
  if (replays) study.traces = find_files(fields, fields.at("traces"), "traces", path);
  read_runs(fields, path, study);
  return study;
}

}  // namespace kvloupe
