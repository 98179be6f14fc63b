// kvloupe export: one figure into one file or several, without a display.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/evaluation/evaluation.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"

namespace kvloupe::cli::export_verb {

namespace {

struct ExportOptions {
  std::vector<std::string> inputs;
  std::string figure;
  std::vector<std::string> outputs;
  FigureOptions options;
};

/// A maker of figures from the inputs: traces, or the results of an evaluation or a study.
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

/// One file of the figure.
struct ExportedFile {
  figure::FileFormat format;
  std::unique_ptr<OutputFile> file;
};

int run_export(const ExportOptions& o) {
  const figure::FigureInfo& info = figure::find_figure(o.figure);
  std::vector<figure::FileFormat> formats;
  for (const std::string& path : o.outputs) formats.push_back(figure::format_of(path));
  const request::FigureSettings settings = settings_of(o.options);
  figure::check_choices(info, settings.choices);
  if (settings.policy_b && !request::draws_policy_b(info, settings.choices)) {
    throw UsageError(fmt::format(
        "--policy-b: figure {} draws one policy; leave the option out, or export the figure again "
        "with --policy {}",
        info.name, settings.policy_b->text()));
  }
  refuse_same_outputs(o.outputs);
  for (const std::string& path : o.outputs)
    refuse_own_input(path, {o.inputs.begin(), o.inputs.end()});
  const request::FigureMaker maker = maker_of(info, o.inputs);
  std::vector<ExportedFile> outputs;  // before the work: an unwritable target is known at once
  for (std::size_t i = 0; i < formats.size(); ++i)
    outputs.push_back({formats[i], std::make_unique<OutputFile>(o.outputs[i])});
  Progress progress;
  const figure::MadeFigure made = maker.make(info, settings, progress);
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  for (const ExportedFile& output : outputs)
    output.file->write(figure::file_of(info, made, output.format, o.options.file, fonts));
  for (const ExportedFile& output : outputs) output.file->finish();
  return 0;
}

/// Every figure with its description and choices, for --help.
std::string figure_list() {
  std::string text = "Figures:\n";
  for (const figure::FigureInfo& info : figure::figure_catalog()) {
    text += fmt::format("  {:<14} {}{}\n", info.name, info.title,
                        info.needs.evaluation        ? " (results of an evaluation or a study)"
                        : info.needs.both_loops      ? " (a full run and a closed-loop run)"
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
  const auto [verb, options] = Verb<ExportOptions>(
      app, action, "export",
      "Write a figure as SVG, PDF, PNG, CSV or an interactive web page; needs no display",
      run_export);
  verb->add_option("INPUT", options->inputs,
                   "The trace file. Some figures compare several traces, or read results of "
                   "kvloupe-capture eval or of kvloupe study")
      ->required();
  verb->add_option("--figure", options->figure, "The figure's name; see below")->required();
  verb->add_option("-o,--output", options->outputs,
                   "FILE.svg, .pdf, .png, .csv, .html or, for a table, .tex; several times for "
                   "several files of the figure, which is computed once")
      ->required()
      ->allow_extra_args(false);
  add_figure_options(*verb, options->options);
  verb->add_option("--set", options->options.choices,
                   "A choice of the figure, NAME=VALUE; see below")
      ->allow_extra_args(false);
  const auto list = [&](const char* option, const char* choice, const char* what) {
    verb->add_option_function<std::string>(
        option,
        [options = options, choice](const std::string& text) {
          options->options.choices.push_back(std::string(choice) + "=" + text);
        },
        what);
  };
  list("--policies", "policies",
       "Policies that a figure compares, separated by commas; same as --set policies=");
  list("--budgets", "budgets", "Budgets that a figure compares, such as 64,10%,25%");
  list("--blocks", "blocks", "Block sizes that a figure compares, such as 32,128,all");
  verb->footer(figure_list);
}

}  // namespace kvloupe::cli::export_verb
