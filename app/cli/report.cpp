// kvloupe report: the results of a study as two pages for a reader without the program.

#include "app/report/report.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/cli/shared_options.h"

namespace kvloupe::cli::report_verb {

namespace {
struct Options {
  std::string results, risk = "5%";
  report::ReportRequest request;
};

int run(Options options) {
  std::vector<std::string>& outputs = options.request.outputs;
  refuse_same_outputs(outputs);
  for (const std::string& output : outputs) {
    report::check_report_name(output);
    refuse_own_input(output, {options.results});
  }
  options.request.advice.risk = parse_share(options.risk, "report", "risk");
  std::vector<std::unique_ptr<OutputFile>> files;  // an unwritable target is known at once
  for (const std::string& output : outputs) files.push_back(std::make_unique<OutputFile>(output));
  Progress progress;
  const report::Report made = report::make_report(options.results, options.request, progress);
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i]->write(report::report_file(made, outputs[i], fonts));
  for (const auto& file : files) file->finish();
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<Options>(
      app, action, "report",
      "Write the results of a study as two pages: what was compared, which budget is enough, which "
      "heads matter, and how to repeat it",
      run);
  AdviceRequest& request = options->request.advice;
  add_study_results(*verb, options->results);
  verb->add_option("-o,--output", options->request.outputs,
                   "FILE.html, one page that needs no other file, or FILE.pdf, two pages of A4; "
                   "several times for both")
      ->required()
      ->allow_extra_args(false);
  add_loss_options(*verb, request, options->risk,
                   {.without = "Without it: answers found where the study has them, else "
                               "answer_residual_change; the report says which and why",
                    .at_most = fmt::format(" (default for a share: {:g}; the report says so)",
                                           report::kUsualLimit),
                    .promises = "the promise of any policy"});
  add_study_block(*verb, request);
}

}  // namespace kvloupe::cli::report_verb
