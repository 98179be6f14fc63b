#include "analysis/replay/measure/measure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/text/text.h"
#include "analysis/replay/measure/foretold_answers.h"

namespace kvloupe {

std::string better_text(Better better) {
  return better == Better::smaller ? "smaller" : better == Better::larger ? "larger" : "";
}

namespace {
constexpr const char* kHead =
    R"(<!-- Written by `kvloupe measures --markdown`. Do not edit: change the catalogue, then run the command again. -->
# Measures

Measures of a policy's replay, or of the trace alone. A measure's name is its key in the JSON of `kvloupe replay --json`,
its column in the CSV of `kvloupe sweep`, and its value in `kvloupe export --figure overview --set measure=NAME`.
↑: larger is better; ↓: smaller is better. A measure without a source is kvloupe's own. Words:
[glossary](glossary.md).

A sweep holds one number per head: the mean over query heads, and over the steps from the first eviction on (without an
eviction: the last step), or, where this page says so, the value at the last step. Unknown values do not count in means; they
are `null` in JSON and empty in CSV.

Notation: A is the softmax row of one query over the whole captured prefix, A' the same over the retained entries, both in
double precision from the states as stored; V are the values, W_O is the slice of the output projection of one query head. In
a sliding window the prefix is the part that the query sees. Its oldest entry, which no later query sees, counts as retained
unless it was evicted before: leaving the window is not an eviction.
)";

std::string line(const MeasureInfo& info, const std::string& names, const std::string& title,
                 const std::string& help) {
  const char* arrow = info.better == Better::larger    ? " ↑"
                      : info.better == Better::smaller ? " ↓"
                                                       : "";
  const std::string unit = info.unit.empty() ? "" : " (" + info.unit + ")";
  const std::string source = info.source == "ours" ? "" : " (" + info.source + ")";
  return fmt::format("- {}{} **{}**{}. {} `{}`{}\n", names, arrow, title, unit, help, info.formula,
                     source);
}

std::string section(const MeasureFamily& family) {
  std::string text =
      fmt::format("\n### {}\n\nOne value per {}", family.name, scope_name(family.scope));
  const auto at_the_end = [](const MeasureInfo& info) { return info.summary == Summary::last; };
  const bool of_step =
      family.scope == MeasureScope::query_head || family.scope == MeasureScope::step;
  const bool last =
      of_step && std::all_of(family.measures.begin(), family.measures.end(), at_the_end);
  if (last) text += ", in a sweep at the last step";
  if (family.on_request) text += "; computed only on request";
  text += ".";
  if (!family.needs_part.empty()) {
    text += fmt::format(" Only for policies with `{}`.", family.needs_part);
  }
  if (!family.remark.empty()) text += " " + family.remark;
  text += "\n\n";
  for (const MeasureInfo& info : family.measures) {
    const bool one = of_step && !last && at_the_end(info);
    text += line(info, "`" + info.name + "`", info.title,
                 info.help + (one ? " In a sweep at the last step." : ""));
  }
  return text;
}

constexpr const char* kAsked = R"(
### Effect of eviction on the queries of the question, of the answer, and later ones

One value per head and replay; computed only on request. Each query sees the entries that its head's cache holds when it
comes, in an open loop. o and o' are the attention outputs of a query head for one query q, with the full cache and with these
entries. A sum over a layer or the model is known only if all of it was replayed. The queries q:

)";

/// The families that ask for the same numbers, each of queries of its own, in one table.
std::string asked_section() {
  std::vector<const MeasureFamily*> families;
  std::string text = kAsked;
  for (const MeasureFamily& family : measure_catalog()) {
    if (!family.asked) continue;
    families.push_back(&family);
    text += fmt::format("- `{}_…`: {}\n", asked_name(*family.asked), family.remark);
  }
  text += "\n";
  for (std::size_t i = 0; i < families.front()->measures.size(); ++i) {
    const MeasureInfo& info = families.front()->measures[i];
    std::string names;
    for (const MeasureFamily* family : families) {
      names += (names.empty() ? "`" : ", `") + family->measures[i].name + "`";
    }
    // Title and help end with whose queries these are.
    std::string help = info.help;
    const std::size_t whose = help.rfind(", for the ");
    help.erase(whose, help.find('.', whose) - whose);
    text += line(info, names, info.title.substr(0, info.title.rfind(", ")), help);
  }
  return text;
}

constexpr const char* kForetold = R"(
## Measures that foretell answers

Spearman's ρ, over policies and budgets, of a measure's mean in replays and the share of prompts that the running model
answers (SmolLM2-135M-Instruct, two kinds of prompts, eight policies at three budgets): 1 foretells perfectly, 0 is chance.
The best ten; [results-real.md](results-real.md) has all, with intervals. To be certain, run the policy in the model.
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
  constexpr std::size_t kShown = 10;
  for (const ForetoldAnswers& one : std::span(foretold_answers()).first(kShown)) {
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
      if (family.group != group) continue;
      if (!family.asked) text += section(family);
      if (family.asked == Asked::question) text += asked_section();
    }
  }
  return text;
}

}  // namespace kvloupe
