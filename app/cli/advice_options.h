#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "analysis/study/advice.h"

namespace kvloupe::cli {

/// "5%" or "0.05" as a number. Throws UsageError, naming the verb and what the share is of.
double parse_share(const std::string& text, const char* verb, const char* what);

/// RESULTS, of a study.
void add_study_results(CLI::App& verb, std::string& results);

/// The texts in which the verbs differ.
struct LossWords {
  const char* without;   // what follows from the absence of --loss
  std::string at_most;   // more about --at-most
  const char* promises;  // "a promise": which ones may be wrong
};
/// The loss and the confidence: --loss to --over-full.
void add_loss_options(CLI::App& verb, AdviceRequest& request, std::string& risk,
                      const LossWords& words);
/// --block.
void add_study_block(CLI::App& verb, AdviceRequest& request);

}  // namespace kvloupe::cli
