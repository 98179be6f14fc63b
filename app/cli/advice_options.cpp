#include "app/cli/advice_options.h"

#include <fmt/format.h>

#include <charconv>

#include "analysis/error.h"

namespace kvloupe::cli {

double parse_share(const std::string& text, const char* verb, const char* what) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool percent = error == std::errc() && rest + 1 == end && *rest == '%';
  if (error != std::errc() || (rest != end && !percent))
    throw UsageError(fmt::format("{}: write a {} such as 5% or 0.05, not '{}'", verb, what, text));
  return percent ? value / 100.0 : value;
}

void add_study_results(CLI::App& verb, std::string& results) {
  verb.add_option("RESULTS", results,
                  "The results file of a study: kvloupe-capture study, kvloupe study, or Python")
      ->required();
}

void add_loss_options(CLI::App& verb, AdviceRequest& request, std::string& risk,
                      const LossWords& words) {
  verb.add_option("--loss", request.measure,
                  std::string("A measure of the study, such as answer_found. Where more is better, "
                              "the loss is 1 less the measure. ") +
                      words.without);
  verb.add_option("--at-most", request.at_most,
                  "The expected loss that new prompts of the same kind may have" + words.at_most);
  verb.add_option("--risk", risk,
                  fmt::format("The risk that {} is wrong, because the prompts of the study were "
                              "easier than they are on average",
                              words.promises))
      ->capture_default_str();
  verb.add_option("--largest", request.largest,
                  "For a measure that is no share: larger losses count as this");
  verb.add_flag("--over-full", request.over_full,
                "Count what a prompt loses beside the full cache, not what the full cache loses");
}

void add_study_block(CLI::App& verb, AdviceRequest& request) {
  verb.add_option("--block", request.block, "Block size (default: the study's first)");
}

}  // namespace kvloupe::cli
