// kvloupe-capture study: the runs in the model of a study, into the results file of its replays.

#include <memory>
#include <string>

#include "analysis/study/mpi/ranks.h"
#include "capture/cli/commands.h"
#include "capture/cli/shared_options.h"
#include "capture/eval/run_worker.h"

namespace kvloupe::capture_cli::study_verb {

namespace {

struct StudyOptions {
  std::string study, results, shard;
  std::string device = "cpu", progress = "lines";
  int threads = 0;
  ModelChoice model;  // its path is the study's
};

int run_study_command(const StudyOptions& options) {
  const StudyRun::Report report = study_report(options.progress);
  const MakeWorker make_worker = [&options, &report](int threads) {
    return std::make_unique<RunWorker>(
        options.device, options.threads > 0 ? options.threads : threads, options.model,
        [&report](const std::string& note) { report({note}); });
  };
  StudyFile study = options.study;
  study.change = [&](Study& changed) {
    changed.chat = changed.chat || options.model.chat;
    if (!options.model.system.empty()) changed.system = options.model.system;
    check_task_policies(changed);
  };
  run_study_as_started(study, options.results, options.shard, report, StudyPart::runs, make_worker);
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<StudyOptions>(
      app, action, "study", "Run the tasks of a study in its model, alone or under mpirun",
      run_study_command);
  verb->add_option("STUDY", options->study, "The study file (JSON) with a model and tasks")
      ->required();
  verb->add_option("-o,--output", options->results,
                   "The results file (SQLite), the same as that of kvloupe study; a study that was "
                   "stopped continues")
      ->required();
  verb->add_option("--shard", options->shard,
                   "Compute one part, such as 3/10, into a results file of its own; kvloupe study "
                   "merge joins the parts");
  verb->add_option("--progress", options->progress,
                   "lines on standard error, json (one object per line on standard output) or none")
      ->capture_default_str();
  add_model_options(*verb, options->model, false);
  add_chat_options(*verb, options->model);
  add_device_options(*verb, options->device, options->threads,
                     "Threads for the model's products in each process");
}

}  // namespace kvloupe::capture_cli::study_verb
