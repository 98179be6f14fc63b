// kvloupe study: the replays of a study into a results file; the content of a results file.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/study/foretell.h"
#include "analysis/study/merge_results.h"
#include "analysis/study/mpi/ranks.h"
#include "analysis/study/paper_table.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_table.h"
#include "analysis/study/summary.h"
#include "app/cli/commands.h"

namespace kvloupe::cli::study_verb {

namespace {
struct Options {
  std::vector<std::string> inputs;
  std::string output, csv, shard;
  std::string progress = "lines";
  std::string foretell;      // a measure of runs in the model
  std::string table, block;  // a paper's table, and what it shows
  std::vector<std::string> measures;
  bool status = false, summary = false, merge = false, board = false;
};

/// A first word that selects an action on a study's results. Flags of earlier versions select the
/// same actions.
struct Word {
  const char* name;
  const char* form;  // what follows it
  const char* help;
};
constexpr Word kWords[] = {
    {"run", "STUDY -o RESULTS", "compute the missing replays (also without the word)"},
    {"status", "RESULTS", "print the progress of a study and its failures"},
    {"summary", "RESULTS", "print means over the traces with 95 % intervals, as Markdown"},
    {"csv", "RESULTS [-o FILE]", "write every value as CSV"},
    {"foretell", "MEASURE RESULTS ...",
     "print which measures of replays foretell this one of runs"},
    {"merge", "RESULTS ... -o RESULTS", "join results files of one study"},
    {"table", "NAME RESULTS ... [-o FILE]", "write a table in the layout of a paper"},
    {"board", "RESULTS ... [-o FILE]", "write the board: tasks by policy, for each budget"},
};

std::string words_text() {
  std::string text = "The first word is one of these:\n";
  for (const Word& word : kWords)
    text += fmt::format("  {:<38} {}\n", fmt::format("{} {}", word.name, word.form), word.help);
  return text + "Write ./run for a file that is called run.\n";
}

/// Turns the first word into the flags that say the same.
void take_word(Options& options) {
  if (options.inputs.empty()) return;
  const std::string word = options.inputs.front();
  const auto known = std::find_if(std::begin(kWords), std::end(kWords),
                                  [&](const Word& one) { return word == one.name; });
  if (known == std::end(kWords)) return;
  options.inputs.erase(options.inputs.begin());
  const auto fail = [&] {
    throw UsageError(fmt::format("study {}: write kvloupe study {} {}", word, word, known->form));
  };
  const auto next = [&] {
    if (options.inputs.size() < 2) fail();
    std::string text = options.inputs.front();
    options.inputs.erase(options.inputs.begin());
    return text;
  };
  if (word == "foretell") options.foretell = next();
  if (word == "table") options.table = next();
  options.board = options.board || word == "board";
  if (options.inputs.empty() || (word == "run" && options.output.empty())) fail();
  options.status = options.status || word == "status";
  options.summary = options.summary || word == "summary";
  options.merge = options.merge || word == "merge";
  if (word == "csv") {
    options.csv = options.output.empty() ? "-" : options.output;
    options.output.clear();
  }
}

std::vector<std::filesystem::path> paths_of(const Options& options) {
  return {options.inputs.begin(), options.inputs.end()};
}

int compute(const Options& options) {
  run_study_as_started(options.inputs.front(), options.output, options.shard,
                       study_report(options.progress), StudyPart::replays, make_replay_worker);
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
  const PaperTable& table = options.board ? board() : require_paper_table(options.table);
  const std::string target = options.output.empty() ? "-" : options.output;
  refuse_own_input(target, paths_of(options));
  const TableForm form = table_form(target);  // a wrong ending is said before any work
  const FilledTable filled =
      fill_paper_table(table, paths_of(options), {options.block, options.measures});
  write_whole_file(target, table_text(filled, form));
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

int run(Options options) {
  take_word(options);
  const bool reads =
      options.status || options.summary || !options.csv.empty() || !options.foretell.empty();
  const bool table = !options.table.empty() || options.board;
  if (options.board && !options.table.empty())
    throw UsageError("study: a board is a table of its own; leave --table or --board out");
  if (!table && !(options.block.empty() && options.measures.empty()))
    throw UsageError(
        "study: --block and --measures belong to a table; give --table NAME or --board");
  if (options.merge || table) {
    if (reads || !options.shard.empty() || options.merge == table || options.inputs.empty() ||
        (options.merge && options.output.empty())) {
      throw UsageError(
          "study: write kvloupe study merge RESULTS ... -o RESULTS, or kvloupe study table NAME "
          "RESULTS ... -o FILE, or kvloupe study board RESULTS ... -o FILE");
    }
    return options.merge ? merge(options) : write_table(options);
  }
  const bool only_foretells =
      !options.foretell.empty() && !options.status && !options.summary && options.csv.empty();
  if (options.inputs.empty() || (options.inputs.size() > 1 && !only_foretells) ||
      options.output.empty() == !reads || (reads && !options.shard.empty())) {
    throw UsageError(
        "study: write kvloupe study run STUDY -o RESULTS, or study with status, summary, csv, "
        "foretell, merge, table or board and a results file (kvloupe study --help)");
  }
  if (!reads) return compute(options);
  refuse_own_input(options.csv, paths_of(options));
  if (!only_foretells) {
    StudyResults results(options.inputs.front());
    if (options.status) print_status(results);
    if (options.summary) fmt::print("{}", in_lines(summary_markdown(summarise(results))));
    if (!options.csv.empty()) write_study_csv(results, options.csv);
  }
  if (!options.foretell.empty())
    fmt::print("{}", in_lines(foretell_files(paths_of(options), options.foretell)));
  return 0;
}

std::string table_names() {
  std::string names;
  for (const PaperTable& table : paper_tables())
    names += (names.empty() ? "" : ", ") + table.name + " (" + table.title + ")";
  return names;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] =
      Verb<Options>(app, action, "study",
                    "Replay the policies of a study on all its traces, alone or under mpirun", run);
  verb->add_option("WORD|STUDY|RESULTS", options->inputs,
                   "A word (below), then a study file (JSON) or a results file")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "The results file (SQLite); a study that was stopped continues. For a table: "
                   "FILE.md, FILE.csv or FILE.tex; without it, Markdown is printed");
  verb->add_option("--shard", options->shard,
                   "Compute one part, such as 3/10, into a results file of its own");
  verb->add_option("--progress", options->progress,
                   "With run: lines on standard error, json (one object per line on standard "
                   "output) or none")
      ->capture_default_str();
  verb->add_flag("--merge", options->merge,
                 "As merge: join results files of one study, such as its shards");
  verb->add_option("--csv", options->csv, "As csv; -: print the values");
  verb->add_flag("--status", options->status, "As status");
  verb->add_flag("--summary", options->summary, "As summary");
  verb->add_option("--foretell", options->foretell,
                   "As foretell, for a measure of the runs in the model such as answer_found; "
                   "several results files are grouped by model");
  verb->add_option("--table", options->table,
                   "As table; each results file is a part of it: " + table_names());
  verb->add_flag("--board", options->board,
                 "As board; each results file, such as that of another model, is a part of it");
  verb->add_option("--block", options->block,
                   "Block size of a table or board (default: the study's first)");
  verb->add_option("--measures", options->measures,
                   "The measures that a table shows, separated by commas")
      ->delimiter(',');
  verb->footer(words_text());
}

}  // namespace kvloupe::cli::study_verb
