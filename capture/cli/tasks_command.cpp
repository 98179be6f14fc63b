// kvloupe-capture tasks: sets of prompts with answers, as long as asked for by a model's own
// tokenizer. Reads the tokenizer only.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <system_error>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "capture/cli/commands.h"
#include "capture/cli/shared_options.h"
#include "capture/tasks/make_tasks.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe::capture_cli::tasks_verb {

namespace {
namespace fs = std::filesystem;

struct TasksOptions {
  ModelChoice model;
  TaskRequest request;
  fs::path folder;
};

int write_tasks(const TasksOptions& options) {
  std::error_code error;
  if (fs::exists(options.folder, error) && !fs::is_directory(options.folder, error))
    throw FileError(options.folder.string(), "is a file; -o names the folder of the sets");
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(options.model.tokenizer_place());
  const std::vector<TaskSet> sets = make_tasks(options.request, *tokenizer);
  for (const TaskSet& set : sets) {
    check_output(options.folder / (set.name + ".jsonl"), options.model,
                 {options.request.filler.value_or("")});
  }
  fs::create_directories(options.folder, error);
  if (error) throw FileError(options.folder.string(), "cannot be made: " + error.message());
  for (const TaskSet& set : sets) {
    const fs::path file = options.folder / (set.name + ".jsonl");
    write_whole_file(file, set.lines);
    fmt::print("{}: {} prompt{} of {} to {} tokens; answers of at most {} tokens, judged by {}\n",
               file.string(), options.request.count, options.request.count == 1 ? "" : "s",
               set.fewest, set.most, set.answer_tokens, set.scoring);
  }
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<TasksOptions>(
      app, action, "tasks",
      "Write sets of prompts with answers: RULER's synthetic tasks by their rules, and our own",
      write_tasks);
  TaskRequest& request = options->request;
  verb->add_option("NAME", request.names,
                   "Tasks with commas between them, such as niah_single_2,vt; all for all of them")
      ->required()
      ->delimiter(',');
  verb->add_option("--model", options->model.path,
                   "Folder with the model's tokenizer, or a GGUF file: it counts the tokens")
      ->required();
  add_tokenizer_option(*verb, options->model);
  verb->add_option("--length", request.length, "Tokens of a prompt with its answer, at most")
      ->required()
      ->check(CLI::Range(1, 1 << 22));
  verb->add_option("--count", request.count, "Prompts of each task")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  verb->add_option("--seed", request.seed, "Other numbers give other prompts")
      ->capture_default_str();
  verb->add_option("--filler", request.filler,
                   "Prompt file whose text hides the needles, in place of kvloupe's manuals");
  verb->add_option("-o,--output", options->folder, "Folder of the sets, NAME.jsonl each")
      ->required();
}

}  // namespace kvloupe::capture_cli::tasks_verb
