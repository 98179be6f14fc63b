// kvloupe study: the replays of a study into a results file; what a results file holds.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/output_file.h"
#include "analysis/study/foretell.h"
#include "analysis/study/merge_results.h"
#include "analysis/study/mpi/ranks.h"
#include "analysis/study/paper_table.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_csv.h"
#include "analysis/study/summary.h"
#include "app/cli/commands.h"

namespace kvloupe::cli {

namespace {
struct Options {
  std::vector<std::string> inputs;
  std::string output, csv, shard;
  std::string foretell;      // a measure of runs in the model
  std::string table, block;  // a paper's table, and what it shows
  std::vector<std::string> measures;
  bool status = false, summary = false, merge = false;
};

std::vector<std::filesystem::path> paths_of(const Options& options) {
  return {options.inputs.begin(), options.inputs.end()};
}

int compute(const Options& options) {
  const StudyRun::Report report = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const std::string& study = options.inputs.front();
  refuse_own_input(options.output, paths_of(options));
  const Shard shard = options.shard.empty() ? Shard{} : parse_shard(options.shard);
  if (launched_processes() > 1) {
    run_study_on_ranks(study, options.output, report, StudyPart::replays, make_replay_worker,
                       shard);
  } else {
    run_study(study, options.output, report, StudyPart::replays, make_replay_worker, shard);
  }
  return 0;
}

int merge(const Options& options) {
  refuse_own_input(options.output, paths_of(options));
  const MergedResults merged = merge_results(paths_of(options), options.output);
  fmt::print(stderr, "{} items: {} done, {} failed, {} waiting\n", merged.items, merged.done,
             merged.failed, merged.items - merged.done - merged.failed);
  return 0;
}

int write_table(const Options& options) {
  const PaperTable& table = require_paper_table(options.table);
  const std::string target = options.output.empty() ? "-" : options.output;
  refuse_own_input(target, paths_of(options));
  const TableForm form = table_form(target);  // a wrong ending is said before any work
  const FilledTable filled =
      fill_paper_table(table, paths_of(options), {options.block, options.measures});
  OutputFile out(target);
  out.write(table_text(filled, form));
  out.finish();
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
  const bool reads =
      options.status || options.summary || !options.csv.empty() || !options.foretell.empty();
  const bool table = !options.table.empty();
  if (!table && !(options.block.empty() && options.measures.empty()))
    throw UsageError(
        "study: --block and --measures choose what a --table shows; give --table NAME");
  if (options.merge || table) {
    if (reads || !options.shard.empty() || options.merge == table || options.inputs.empty() ||
        (options.merge && options.output.empty())) {
      throw UsageError(
          "study: give results files and --merge -o RESULTS.sqlite, or results files and --table "
          "NAME -o FILE");
    }
    return options.merge ? merge(options) : write_table(options);
  }
  if (options.inputs.size() != 1 || options.output.empty() == !reads ||
      (reads && !options.shard.empty())) {
    throw UsageError(
        "study: give a study file and -o RESULTS.sqlite, or a results file and --status, "
        "--summary, "
        "--foretell MEASURE or --csv FILE");
  }
  if (!reads) return compute(options);
  refuse_own_input(options.csv, paths_of(options));
  StudyResults results(options.inputs.front());
  if (options.status) print_status(results);
  if (options.summary) fmt::print("{}", summary_markdown(summarise(results)));
  if (!options.foretell.empty()) {
    const StudyTable read = read_study_table(options.inputs.front());
    fmt::print("{}", foretell_markdown(foretell(read, options.foretell), options.foretell));
  }
  if (!options.csv.empty()) write_study_csv(results, options.csv);
  return 0;
}

std::string table_names() {
  std::string names;
  for (const PaperTable& table : paper_tables())
    names += (names.empty() ? "" : ", ") + table.name + " (" + table.title + ")";
  return names;
}
}  // namespace

void add_study(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "study", "Replay the policies of a study on all its traces, alone or under mpirun");
  const auto options = std::make_shared<Options>();
  verb->add_option(
          "STUDY|RESULTS", options->inputs,
          "A study file (JSON), or its results: with --status, --summary, --foretell or --csv "
          "one file, with --merge or --table one or more")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "The results file (SQLite); a study that was stopped goes on where it was. With "
                   "--table: FILE.md, FILE.csv or FILE.tex; without it, Markdown is printed");
  verb->add_option("--shard", options->shard,
                   "Compute one part of so many, such as 3/10, into a results file of its own");
  verb->add_flag("--merge", options->merge,
                 "Join the results files of one study, such as those of its shards, in another");
  verb->add_option("--csv", options->csv, "Write a results file's values as CSV; -: print them");
  verb->add_flag("--status", options->status, "Print how far a study is and what failed");
  verb->add_flag("--summary", options->summary,
                 "Print the means over the traces with 95 % intervals, as tables in Markdown");
  verb->add_option("--foretell", options->foretell,
                   "Print how well each measure of the replays foretells this measure of the runs "
                   "in the model, such as answer_found, as a table in Markdown");
  verb->add_option(
      "--table", options->table,
      "Write a table in the layout of a paper, each results file a part of it: " + table_names());
  verb->add_option("--block", options->block,
                   "The block size that a table shows, as in the study; the first where not given");
  verb->add_option("--measures", options->measures,
                   "The measures that a table shows, separated by commas")
      ->delimiter(',');
  verb->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace kvloupe::cli
