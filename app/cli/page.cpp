// kvloupe page: a whole trace as one web page.

#include <fmt/format.h>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/replay/typed_values.h"
#include "app/cli/commands.h"
#include "app/cli/shared_options.h"
#include "app/trace_page/trace_page.h"

namespace kvloupe::cli::page_verb {

namespace {
struct Options {
  std::string trace, output, layers, heads, results;
  std::string policies = trace_page::kUsualPolicies, budgets = trace_page::kUsualBudgets;
  int block = 0;
  std::optional<Compression> compression;
};

int run(const Options& options) {
  trace_page::PageRequest request{.policies = parse_policy_list(options.policies),
                                  .budgets = parse_budgets(options.budgets),
                                  .layers = options.layers,
                                  .heads = options.heads,
                                  .block = options.block,
                                  .compression = options.compression,
                                  .output = options.output,
                                  .typed_policies = options.policies,
                                  .typed_budgets = options.budgets};
  refuse_own_input(options.output, {options.trace, options.results});
  const Trace trace(options.trace);
  std::optional<Evaluation> results;
  if (!options.results.empty())
    request.results = &results.emplace(read_evaluation(options.results));
  const trace_page::PagePlan plan = trace_page::plan_page(trace, request);
  OutputFile out(options.output);  // an unwritable target is known before the work
  fmt::print(stderr, "{} heads, {} tokens; {} policies at {} budgets: about {:.1f} MB and scores\n",
             plan.heads.size(), trace.length(), request.policies.size(), request.budgets.size(),
             static_cast<double>(plan.bytes) / 1e6);
  Progress progress;
  const std::string page = make_page(trace, request, progress, [](const std::string& line) {
    fmt::print(stderr, "kvloupe: {}\n", in_lines(line));
  });
  out.write(page);
  out.finish();
  if (options.output != "-")
    fmt::print("{}: {:.1f} MB\n", options.output, static_cast<double>(page.size()) / 1e6);
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<Options>(
      app, action, "page",
      "Write a whole trace as one web page: text, heads, film strip and reasons under several "
      "policies and budgets; needs no display",
      run);
  verb->add_option("TRACE", options->trace, "The trace file")->required();
  verb->add_option("-o,--output", options->output, "FILE.html, which needs no other file")
      ->required();
  verb->add_option("--policies", options->policies, "Policies, such as h2o+recent(50%),keydiff")
      ->capture_default_str();
  verb->add_option("--budgets", options->budgets,
                   "Counts or shares of the prompt, in the order of the page's slider: 10%,25%,128")
      ->capture_default_str();
  verb->add_option("--layers", options->layers, "Layers of the page, such as 0-3,7 (default: all)");
  verb->add_option("--heads", options->heads,
                   "Key-value heads of the page, such as 0,1 (default: all)");
  add_block_and_compression(*verb, options->block, options->compression);
  verb->add_option("--results", options->results,
                   "Results of kvloupe-capture eval or kvloupe-capture study: what the model "
                   "answered with each policy");
}

}  // namespace kvloupe::cli::page_verb
