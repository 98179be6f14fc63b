// kvloupe-capture tasks: sets of prompts with answers, as long as asked for by a model's own
// tokenizer. Reads the tokenizer only.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "analysis/base/system/output_file.h"
#include "capture/cli/commands.h"
#include "capture/cli/shared_options.h"
#include "capture/tasks/tasks.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe::capture_cli::tasks_verb {

namespace {
namespace fs = std::filesystem;

struct TasksOptions {
  std::vector<std::string> names;
  ModelChoice model;
  int length = 0, count = 50;
  std::uint64_t seed = 42;
  std::optional<fs::path> filler;
  fs::path folder;
};

int write_tasks(const TasksOptions& options) {
  const auto tokenizer = open_tokenizer(options.model.tokenizer_place());
  const TaskMaterial of = read_task_material(options.filler, options.length, *tokenizer);
  std::vector<std::pair<fs::path, std::string>> files;
  for (const PromptTask& task : task_catalog()) {
    const auto asked = [&](const std::string& name) { return name == "all" || name == task.name; };
    if (std::none_of(options.names.begin(), options.names.end(), asked)) continue;
    files.emplace_back(options.folder / (task.name + ".jsonl"),
                       make_prompts(task, of, options.count, options.seed));
    check_output(files.back().first, options.model, {options.filler.value_or("")});
  }
  std::error_code error;
  fs::create_directories(options.folder, error);  // else the first file says why
  for (const auto& [file, lines] : files) {
    write_whole_file(file, lines);
    fmt::print("{}: {} prompts\n", file.string(), options.count);
  }
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<TasksOptions>(
      app, action, "tasks", "Write prompts with answers: RULER's synthetic tasks, and our own",
      write_tasks);
  std::vector<std::string> known = {"all"};
  for (const PromptTask& task : task_catalog()) known.push_back(task.name);
  verb->add_option("NAME", options->names, "Tasks with commas between them, or all")
      ->required()
      ->delimiter(',')
      ->check(CLI::IsMember(known));
  verb->add_option("--model", options->model.path, "Model folder, or a GGUF file")->required();
  add_tokenizer_option(*verb, options->model);
  verb->add_option("--length", options->length, "Tokens of a prompt with its answer, at most")
      ->required()
      ->check(CLI::Range(1, 1 << 22));
  verb->add_option("--count", options->count, "Prompts of each task")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  verb->add_option("--seed", options->seed, "Draws other prompts")->capture_default_str();
  verb->add_option("--filler", options->filler, "Prompt file, in place of kvloupe's manuals");
  verb->add_option("-o,--output", options->folder, "Folder of the sets NAME.jsonl")->required();
}

}  // namespace kvloupe::capture_cli::tasks_verb
