// kvloupe sweep: many policies at many budgets, every measure per layer and head, as CSV.

#include "analysis/replay/sweep.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/cli/commands.h"

namespace kvloupe::cli::sweep_verb {

namespace {
struct Options {
  std::string trace, policies, budgets, blocks, output, limit;
  std::vector<std::string> measures;
  std::optional<Compression> compression;
};

/// "perturbation_l1=0.5"
std::pair<std::string, double> parse_limit(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size() - 1);
  if (const auto limit = number_in<double>(text.substr(equals + 1)))
    return {text.substr(0, equals), *limit};
  throw UsageError("limit '" + text + "': write a measure and a number: perturbation_l1=0.5");
}

void print_smallest(const std::vector<SmallestBudget>& all, const std::string& measure,
                    double limit) {
  fmt::print(
      "smallest budget with {} at {} {}; whether an answer stays right there, only runs of the "
      "model show\n{:>7} {:>5} {:>5} {:>9}  policy\n",
      measure, is_floor(measure) ? "least" : "most", limit, "block", "layer", "head", "budget");
  for (const SmallestBudget& one : all) {
    fmt::print("{:>7} {:>5} {:>5} {:>9}  {}\n", one.block, one.layer, one.head,
               one.budget ? std::to_string(*one.budget) : "none", one.policy);
  }
}

int run(const Options& options) {
  // Errors of the command line itself are reported before any work.
  const bool none = options.measures == std::vector<std::string>{"none"};
  for (const std::string& name : options.measures) {
    if (name != "all" && !none) require_measure(name);
  }
  SweepRequest request{.policies = parse_policy_list(options.policies),
                       .budgets = parse_budgets(options.budgets)};
  std::pair<std::string, double> limit;
  if (!options.limit.empty()) limit = parse_limit(options.limit);
  refuse_own_input(options.output, {options.trace});
  const Trace trace(options.trace);
  request.blocks = options.blocks.empty() ? std::vector<int>{0} : parse_blocks(options.blocks);
  request.compression = options.compression;
  std::vector<std::string> measures = none ? std::vector<std::string>() : options.measures;
  if (options.measures.empty()) measures = usual_measures(trace);
  const std::vector<SweepSetting> settings = sweep_settings(trace, request);
  SweepTable table = SweepTable::load(options.output);
  // A measure there is not is known before the work.
  if (!options.limit.empty()) smallest_budgets({}, trace, limit.first, limit.second);

  Progress progress;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  run_sweep(
      trace, settings, options.output, table, progress,
      [&](std::size_t place, std::size_t count, const SweepSetting& setting, bool known) {
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        fmt::print(stderr, "{:>7.1f} s  {} of {}: {}, budget {}, block {}{}\n", seconds, place + 1,
                   count, setting.policy.text(), setting.budget, setting.block,
                   known ? ": already there" : "");
      },
      measures);
  fmt::print(stderr, "{} of {}: all done, in {}\n", settings.size(), settings.size(),
             options.output);
  if (!options.limit.empty()) {
    print_smallest(smallest_budgets(table, trace, limit.first, limit.second), limit.first,
                   limit.second);
  }
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<Options>(
      app, action, "sweep",
      "Replay many policies at many budgets and write every measure per layer and head as CSV",
      run);
  verb->add_option("TRACE", options->trace, "The trace file")->required();
  verb->add_option("--policies", options->policies, "Policies, such as h2o+recent(50%),keydiff")
      ->required();
  verb->add_option("--budgets", options->budgets, "Counts or shares of the prompt: 2.5%,5%,128")
      ->required();
  verb->add_option("--blocks", options->blocks,
                   "Tokens per prompt step: 32,128,all (default: the capture's)");
  add_word_option(*verb, "--compression", options->compression, compression_words(),
                  kCompressionHelp);
  verb->add_option("-o,--output", options->output,
                   "The CSV file; rows that it already has are kept, so a stopped sweep continues")
      ->required();
  verb->add_option("--measures", options->measures,
                   "Expensive measures to compute too: names, all or none; default: those of the "
                   "answer's queries, else of the question's, else of later ones. The columns of "
                   "the others are empty")
      ->delimiter(',');
  verb->add_option(
      "--limit", options->limit,
      "Print for each head the smallest budget that keeps a measure within a limit of "
      "your choice: at or below it, or above where more is better: perturbation_l1=0.5");
}

}  // namespace kvloupe::cli::sweep_verb
