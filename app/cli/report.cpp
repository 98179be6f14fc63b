// kvloupe report: the results of a study as two pages for a reader without the program.

#include "app/report/report.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/cli/share.h"

namespace kvloupe::cli::report_verb {

namespace {
struct Options {
  std::string results, risk = "5%";
  report::ReportRequest request;
};

int run(Options options) {
  std::vector<std::string>& outputs = options.request.outputs;
  std::set<std::filesystem::path> paths;
  for (const std::string& output : outputs) {
    report::check_report_name(output);
    refuse_own_input(output, {options.results});
    std::error_code error;
    const std::filesystem::path place = std::filesystem::weakly_canonical(output, error);
    if (!paths.insert(error ? std::filesystem::path(output) : place).second)
      throw UsageError(fmt::format("-o {}: is given twice; give each file once", output));
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
  CLI::App* verb = app.add_subcommand(
      "report",
      "Write the results of a study as two pages: what was compared, which budget is enough, which "
      "heads matter, and how to repeat it");
  const auto options = std::make_shared<Options>();
  AdviceRequest& request = options->request.advice;
  verb->add_option("RESULTS", options->results,
                   "The results file of a study: kvloupe-capture study, kvloupe study, or Python")
      ->required();
  verb->add_option("-o,--output", options->request.outputs,
                   "FILE.html, one page that needs no other file, or FILE.pdf, two pages of A4; "
                   "several times for both")
      ->required()
      ->allow_extra_args(false);
  verb->add_option("--loss", request.measure,
                   "A measure of the study, such as answer_found. Where more is better, the loss "
                   "is 1 less the measure. Without it: the study's first measure that is a share "
                   "and depends on the policy; the report says which");
  verb->add_option("--at-most", request.at_most,
                   fmt::format("The expected loss that new prompts of the same kind may have "
                               "(default for a share: {:g}; the report says so)",
                               report::kUsualLimit));
  verb->add_option("--risk", options->risk,
                   "The risk that the promise of any policy is wrong, because the prompts of the "
                   "study were easier than they are on average")
      ->capture_default_str();
  verb->add_option("--largest", request.largest,
                   "For a measure that is no share: larger losses count as this");
  verb->add_flag("--over-full", request.over_full,
                 "Count what a prompt loses beside the full cache, not what the full cache loses");
  verb->add_option("--block", request.block, "Block size (default: the study's first)");
  verb->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace kvloupe::cli::report_verb
