// kvloupe study: the replays of a study into a results file; what a results file holds.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/study/mpi/ranks.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_csv.h"
#include "analysis/study/summary.h"
#include "app/cli/commands.h"

namespace kvloupe::cli {

namespace {
struct Options {
  std::string input, output, csv;
  bool status = false, summary = false;
};

int compute(const Options& options) {
  const StudyRun::Report report = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (launched_processes() > 1) {
    run_study_on_ranks(options.input, options.output, report);
  } else {
    run_study(options.input, options.output, report);
  }
  return 0;
}

void print_status(StudyResults& results) {
  const std::vector<StudyResults::Item> items = results.items();
  const auto in_state = [&](const char* state) {
    return std::count_if(items.begin(), items.end(),
                         [&](const StudyResults::Item& item) { return item.state == state; });
  };
  double seconds = 0.0;
  for (const StudyResults::Item& item : items) seconds += item.seconds;
  fmt::print("{} items: {} done, {} failed, {} waiting; {:.1f} s of replays\n", items.size(),
             in_state("done"), in_state("failed"), in_state("waiting"), seconds);
  for (const StudyResults::Item& item : items) {
    if (item.state != "failed") continue;
    fmt::print("failed: {}, {}, budget {}, block {}: {}\n", in_one_line(item.trace, 200),
               in_one_line(item.policy, 200), in_one_line(item.budget),
               in_one_line(item.block_word), in_one_line(item.problem, 400));
  }
}

int run(const Options& options) {
  const bool reads = options.status || options.summary || !options.csv.empty();
  if (options.output.empty() == !reads) {
    throw UsageError(
        "study: give a study file and -o RESULTS.sqlite, or a results file and --status, --summary "
        "or --csv FILE");
  }
  if (!reads) return compute(options);
  StudyResults results(options.input);
  if (options.status) print_status(results);
  if (options.summary) fmt::print("{}", summary_markdown(summarise(results)));
  if (!options.csv.empty()) write_study_csv(results, options.csv);
  return 0;
}
}  // namespace

void add_study(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "study", "Replay the policies of a study on all its traces, alone or under mpirun");
  const auto options = std::make_shared<Options>();
  verb->add_option("STUDY|RESULTS", options->input,
                   "A study file (JSON), or with --status, --summary or --csv its results")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "The results file (SQLite); a study that was stopped goes on where it was");
  verb->add_option("--csv", options->csv, "Write a results file's values as CSV; -: print them");
  verb->add_flag("--status", options->status, "Print how far a study is and what failed");
  verb->add_flag("--summary", options->summary,
                 "Print the means over the traces with 95 % intervals, as tables in Markdown");
  verb->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace kvloupe::cli
