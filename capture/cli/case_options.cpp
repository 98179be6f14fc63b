#include "capture/cli/case_options.h"

namespace kvloupe::capture_cli {

void add_case_options(CLI::App& verb, CLI::Option* results, EvalCaseRequest& from) {
  verb.add_option(
          "--row", from.row,
          "With --results: which of its runs, from 0 in the file's order; of a study: its item")
      ->needs(results)
      ->check(CLI::Range(0, 1 << 30));
  verb.add_option("--template", from.needle_template,
                  "With --results: the template that the evaluation was given")
      ->needs(results);
  verb.add_option("--filler", from.filler,
                  "With --results: the filler that the evaluation was given")
      ->needs(results);
}

}  // namespace kvloupe::capture_cli
