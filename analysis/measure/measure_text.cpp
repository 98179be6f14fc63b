#include "analysis/measure/measure_text.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/measure/foretold_answers.h"
#include "analysis/text.h"

namespace kvloupe {

std::string better_text(Better better) {
  return better == Better::smaller ? "smaller" : better == Better::larger ? "larger" : "";
}

namespace {
constexpr const char* kHead =
    R"(<!-- Written by `kvloupe measures --markdown`. Do not edit: change the catalogue, then run the command again. -->
# Measures

Measures of a policy's replay, or of the trace alone. A measure's name is its key in the JSON
of `kvloupe replay --json`, its column in the CSV of `kvloupe sweep`, and its value in
`kvloupe export --figure overview --set measure=NAME`.

The column of a sweep holds one number per head. For a measure with a value per step it is the mean over the
steps from the first eviction on (without an eviction: the last step), or, if the last column says so, the
value at the last step. For a measure with a value per query head it is the mean over the query heads. Unknown
values do not count in these means. An unknown value is `null` in JSON and empty in CSV.

Notation: A is the softmax row of one query over the whole captured prefix, A' the same over the retained
entries, both in double precision from the states as stored. V are the values, W_O is the slice of the output
projection of one query head. If the model has a sliding window, the prefix is the part that the query sees. The
query also sees one entry that no later query sees; this entry counts as retained unless it was evicted before,
because leaving the window is not an eviction.
)";

std::string section(const MeasureFamily& family) {
  std::string text =
      fmt::format("\n### {}\n\nOne value per {}.", family.name, scope_name(family.scope));
  if (!family.needs_part.empty()) {
    text += fmt::format(" Only for policies with `{}`.", family.needs_part);
  }
  if (family.on_request) text += " Computed only on request.";
  if (!family.remark.empty()) text += " " + family.remark;
  text += "\n\n| name | what it says | unit | formula | source | better | in a sweep |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const MeasureInfo& info : family.measures) {
    const bool of_step =
        family.scope == MeasureScope::query_head || family.scope == MeasureScope::step;
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", info.name,
                        table_cell("**" + info.title + ".** " + info.help), info.unit,
                        table_cell(info.formula), table_cell(info.source), better_text(info.better),
                        !of_step                        ? ""
                        : info.summary == Summary::last ? "last step"
                                                        : "mean");
  }
  return text;
}

constexpr const char* kForetold = R"(
## Measures that foretell answers

A replay does not run the model without the evicted entries. How well do its measures foretell the answers of the running
model? The table has Spearman's ρ, over policies and budgets, of a measure's mean and the share of answered prompts, in a study
of SmolLM2-135M-Instruct (two kinds of prompts, eight policies at three budgets). 1 foretells perfectly; 0 is chance. Intervals
are in [results-real.md](results-real.md). Take measures of the answer's queries and of the whole model first. To be certain, run
the policy in the model.
)";

std::string foretold_section() {
  std::string text = kForetold;
  const auto number = [](double rho) {
    return std::isfinite(rho) ? fmt::format("{:.2f}", rho) : std::string("–");
  };
  const ForetoldStudy study = foretold_study();
  text += fmt::format(
      "\n| measure | needles, {} prompts | things, {} prompts |\n| --- | ---: | ---: |\n",
      study.needles, study.things);
  for (const ForetoldAnswers& one : foretold_answers()) {
    text +=
        fmt::format("| `{}` | {} | {} |\n", one.measure, number(one.needles), number(one.things));
  }
  return text + "\n`answer_residual_change` on other models." + kForetoldOnOtherModels + "\n";
}
}  // namespace

std::string measures_markdown() {
  std::string text = kHead;
  text += foretold_section();
  for (const MeasureGroup group : kMeasureGroups) {
    text += fmt::format("\n## {}\n", group_title(group));
    for (const MeasureFamily& family : measure_catalog()) {
      if (family.group == group) text += section(family);
    }
  }
  return text;
}

}  // namespace kvloupe
