// kvloupe advise: from the results of a study to the smallest budget whose loss can be promised.

#include "analysis/study/advice.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <string>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "app/cli/commands.h"

namespace kvloupe::cli::advise_verb {

namespace {
struct Options {
  std::string results, risk = "5%", output;
  AdviceRequest request;
};

/// "5%" or "0.05"
double parse_share(const std::string& text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool percent = error == std::errc() && rest + 1 == end && *rest == '%';
  if (error != std::errc() || (rest != end && !percent))
    throw UsageError("advise: write a risk such as 5% or 0.05, not '" + text + "'");
  return percent ? value / 100.0 : value;
}

int run(Options options) {
  options.request.risk = parse_share(options.risk);
  if (!options.output.empty()) refuse_own_input(options.output, {options.results});
  const Advice advice = advise(read_study_table(options.results), options.request);
  require_enough_prompts(advice, options.request);
  if (!options.output.empty()) {
    OutputFile out(options.output);
    out.write(advice_csv(advice));
    out.finish();
  }
  if (options.output != "-") fmt::print("{}", advice_markdown(advice, options.request));
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "advise", "Name each policy's smallest budget whose loss on new prompts can be promised");
  const auto options = std::make_shared<Options>();
  verb->add_option("RESULTS", options->results,
                   "The results file of a study: kvloupe-capture study, kvloupe study, or Python")
      ->required();
  verb->add_option("--loss", options->request.measure,
                   "A measure of the study, such as answer_found. Where more is better, the loss "
                   "is 1 less the measure")
      ->required();
  verb->add_option("--at-most", options->request.at_most,
                   "The expected loss that new prompts of the same kind may have")
      ->required();
  verb->add_option("--risk", options->risk,
                   "The risk that a promise is wrong, because the prompts of the study were easier "
                   "than they are on average")
      ->capture_default_str();
  verb->add_option("--largest", options->request.largest,
                   "For a measure that is no share: larger losses count as this");
  verb->add_flag("--over-full", options->request.over_full,
                 "Count what a prompt loses beside the full cache, not what the full cache loses");
  verb->add_flag("--together", options->request.together,
                 "The risk is that the promise of any policy is wrong: for whoever chooses a "
                 "policy by these results");
  verb->add_option("--block", options->request.block, "Block size (default: the study's first)");
  verb->add_option("-o,--output", options->output,
                   "Also write every budget's numbers as CSV; -: print them in place of the table");
  verb->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace kvloupe::cli::advise_verb
