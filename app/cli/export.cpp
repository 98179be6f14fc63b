// kvloupe export: one figure into one file, without a display.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/error.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/output_file.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"

namespace kvloupe::cli::export_verb {

namespace {

struct ExportOptions {
  std::vector<std::string> inputs;
  std::string figure;
  std::string output;
  FigureOptions options;
};

/// What the figure is made from: traces, or the results of an evaluation or a study.
request::FigureMaker maker_of(const figure::FigureInfo& info,
                              const std::vector<std::string>& inputs) {
  if (info.needs.evaluation) {
    if (inputs.size() > 1) {
      throw UsageError(fmt::format("{}: figure {} reads one results file; give only one input",
                                   inputs.back(), info.name));
    }
    return request::FigureMaker(
        std::make_shared<const Evaluation>(read_evaluation(inputs.front())));
  }
  request::check_trace_count(info, inputs.size(), inputs.back());
  std::vector<std::shared_ptr<const Trace>> traces;
  for (const std::string& input : inputs) traces.push_back(std::make_shared<const Trace>(input));
  return request::FigureMaker(std::move(traces));
}

int run_export(const ExportOptions& o) {
  const figure::FigureInfo& info = figure::find_figure(o.figure);
  const figure::FileFormat format = figure::format_of(o.output);
  const request::FigureSettings settings = settings_of(o.options);
  const figure::FileOptions file_options = file_options_of(o.options);
  figure::check_choices(info, settings.choices);
  refuse_own_input(o.output, {o.inputs.begin(), o.inputs.end()});
  const request::FigureMaker maker = maker_of(info, o.inputs);
  OutputFile file(o.output);  // before the work: an unwritable target is known at once
  Progress progress;
  const figure::MadeFigure made = maker.make(info, settings, progress);
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  file.write(figure::file_of(info, made, format, file_options, fonts));
  file.finish();
  return 0;
}

/// Every figure with what it shows and its choices, for --help.
std::string figure_list() {
  std::string text = "Figures:\n";
  for (const figure::FigureInfo& info : figure::figure_catalog()) {
    text += fmt::format("  {:<14} {}{}\n", info.name, info.title,
                        info.needs.evaluation       ? " (results of an evaluation or a study)"
                        : info.needs.both_loops   ? " (a full run and a closed-loop run)"
                        : info.needs.most_traces > 1 ? " (several traces)"
                                               : "");
    for (const figure::ChoiceInfo& choice : info.choices) {
      text +=
          fmt::format("  {:<14} --set {}={}{}\n", "", choice.name, fmt::join(choice.values, "|"),
                      figure::is_typed(choice) ? " (yours)" : "");
    }
  }
  return text;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "export",
      "Write a figure as SVG, PDF, PNG, CSV or an interactive web page; needs no display");
  const auto options = std::make_shared<ExportOptions>();
  verb->add_option("INPUT", options->inputs,
                   "The trace file. Some figures compare several traces, or read results of "
                   "kvloupe-capture eval or of kvloupe study")
      ->required();
  verb->add_option("--figure", options->figure, "The figure's name; see below")->required();
  verb->add_option("-o,--output", options->output, "FILE.svg, .pdf, .png, .csv or .html")
      ->required();
  add_figure_options(*verb, options->options);
  verb->add_option("--set", options->options.choices,
                   "A choice of the figure, NAME=VALUE; see below")
      ->allow_extra_args(false);
  const auto list = [&](const char* option, const char* choice, const char* what) {
    verb->add_option_function<std::string>(
        option,
        [options, choice](const std::string& text) {
          options->options.choices.push_back(std::string(choice) + "=" + text);
        },
        what);
  };
  list("--policies", "policies",
       "Policies that a figure compares, separated by commas; same as --set policies=");
  list("--budgets", "budgets", "Budgets that a figure compares, such as 64,10%,25%");
  list("--blocks", "blocks", "Block sizes that a figure compares, such as 32,128,all");
  verb->footer(figure_list);
  verb->callback([&action, options] { action = [options] { return run_export(*options); }; });
}

}  // namespace kvloupe::cli::export_verb
