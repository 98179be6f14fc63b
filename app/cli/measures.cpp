// kvloupe measures: every measure, its formula, scope and source.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/replay/measure/foretold_answers.h"
#include "analysis/replay/measure/measure_text.h"
#include "app/cli/shared_options.h"

namespace kvloupe::cli::measures_verb {

namespace {
std::string as_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Measure& measure : all_measures()) {
    const MeasureInfo& info = *measure.info;
    list.push_back({{"name", info.name},
                    {"title", info.title},
                    {"says", info.help},
                    {"group", group_title(measure.family->group)},
                    {"unit", info.unit},
                    {"formula", info.formula},
                    {"source", info.source},
                    {"family", measure.family->name},
                    {"scope", scope_name(measure.family->scope)},
                    {"better", better_text(info.better)},
                    {"by_head", info.one_value_for == OneValueFor::head},
                    {"policy_part", measure.family->needs_part},
                    {"on_request", measure.family->on_request}});
    const std::string foretold = foretold_text(info.name);
    if (!foretold.empty()) list.back()["foretold"] = foretold;
  }
  return nlohmann::ordered_json({{"measures", std::move(list)}}).dump(2) + "\n";
}

std::string as_table() {
  std::size_t width = 0;  // of a name and the gap after it
  for (const Measure& measure : all_measures())
    width = std::max(width, measure.info->name.size() + 2);
  std::string text;
  for (const MeasureGroup group : kMeasureGroups) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", group_title(group));
    for (const MeasureFamily& family : measure_catalog()) {
      if (family.group != group) continue;
      text += fmt::format("\n  {}, per {}\n", family.name, scope_name(family.scope));
      for (const MeasureInfo& info : family.measures) {
        text += fmt::format("    {:<{}}{}. {}\n", info.name, width, info.title, info.help);
        text += fmt::format("    {:<{}}formula: {}\n", "", width, info.formula);
        text += fmt::format("    {:<{}}source: {}\n", "", width, info.source);
      }
    }
  }
  return text;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  add_list_verb(app, action, "measures", "List every measure: formula, unit, source",
                {as_table, as_json, measures_markdown});
}

}  // namespace kvloupe::cli::measures_verb
