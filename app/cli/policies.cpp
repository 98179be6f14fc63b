// kvloupe policies: every policy, its parameters, defaults and source.

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/policy_text.h"
#include "analysis/policy/presets.h"
#include "analysis/policy/published.h"
#include "app/cli/shared_options.h"

namespace kvloupe::cli::policies_verb {

namespace {
/// An integer without a fraction.
nlohmann::ordered_json number_json(double value) {
  if (value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

nlohmann::ordered_json to_json(const ParameterInfo& parameter) {
  nlohmann::ordered_json json = {{"name", parameter.name}, {"type", type_name(parameter.type)}};
  json["required"] = parameter.required;
  if (!parameter.required) {
    if (const double* number = std::get_if<double>(&parameter.default_value)) {
      json["default"] = number_json(*number);
    } else {
      json["default"] = value_text(parameter.default_value);
    }
  }
  if (!parameter.words.empty()) json["words"] = parameter.words;
  if (parameter.type != ParameterType::word && parameter.type != ParameterType::text) {
    json["minimum"] = number_json(parameter.minimum);
    json["maximum"] = number_json(parameter.maximum);
  }
  if (parameter.odd) json["odd"] = true;
  json["meaning"] = parameter.meaning;
  return json;
}

std::string as_json() {
  nlohmann::ordered_json policies = nlohmann::ordered_json::array();
  for (const PolicyEntry& entry : policy_catalog()) {
    nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
    for (const ParameterInfo& parameter : entry.parameters) {
      parameters.push_back(to_json(parameter));
    }
    nlohmann::ordered_json policy = {{"name", entry.name},
                                     {"kind", kind_name(entry.kind())},
                                     {"summary", entry.summary},
                                     {"formula", entry.formula},
                                     {"parameters", std::move(parameters)},
                                     {"source", entry.source},
                                     {"needs", entry.needs},
                                     {"cost", entry.work},
                                     {"differences", entry.differences}};
    if (const PartOrigin* origin = origin_of(entry.name)) policy["plugin"] = origin->file;
    policies.push_back(std::move(policy));
  }
  nlohmann::ordered_json named = nlohmann::ordered_json::array();
  for (const Preset& preset : presets()) {
    named.push_back({{"name", preset.name},
                     {"policy", preset.spec},
                     {"differs", preset.differs},
                     {"compared", preset.compared}});
  }
  nlohmann::ordered_json published = nlohmann::ordered_json::array();
  for (const PublishedPolicy& one : published_policies()) {
    published.push_back({{"part", one.part},
                         {"method", one.method},
                         {"policy", one.spec},
                         {"plain", one.plain},
                         {"what", one.why}});
  }
  return nlohmann::ordered_json({{"policies", std::move(policies)},
                                 {"published", std::move(published)},
                                 {"presets", std::move(named)}})
             .dump(2) +
         "\n";
}

std::string as_table() {
  std::string text =
      "A policy is a score, then modifiers joined by +, such as keydiff+recent(10%).\n";
  bool modifiers = false;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (&entry == &policy_catalog().front()) text += "\nScores\n";
    if (entry.kind() != PartKind::score && !modifiers) {
      modifiers = true;
      text += "\nModifiers\n";
    }
    text += fmt::format("\n{:<19}{}\n{:<19}{}\n{:<19}source: {}\n", entry.name, entry.summary, "",
                        entry.formula, "", entry.source);
    if (const PartOrigin* origin = origin_of(entry.name))
      text += fmt::format("{:<19}plugin: {}\n", "", origin->file);
    for (const ParameterInfo& parameter : entry.parameters) {
      const std::string by_default = parameter.required ? std::string(" (required)")
                                                        : "=" + value_text(parameter.default_value);
      text += fmt::format("{:<21}{:<22}{:<30}{}\n", "", parameter.name + by_default,
                          range_text(parameter), parameter.meaning);
    }
  }
  text += "\nAs their authors ran them: the policies that figures begin with\n\n";
  for (const PublishedPolicy& one : published_policies()) {
    text += fmt::format("{:<17}{}\n{:<17}{}\n", one.method, one.spec, "", one.why);
  }
  text += "\nAs kvpress does it: the name of a press is a policy too\n\n";
  for (const Preset& preset : presets()) {
    text += fmt::format("{:<38}{}\n", preset.name, preset.spec);
    if (!preset.differs.empty()) text += fmt::format("{:<38}but {}\n", "", preset.differs);
  }
  return text;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  add_list_verb(app, action, "policies", "List every policy: parameters, defaults, formula, source",
                {as_table, as_json, policies_markdown});
}

}  // namespace kvloupe::cli::policies_verb
