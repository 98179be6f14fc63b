#include "analysis/policy/policy_catalog.h"

#include <algorithm>

#include "analysis/error.h"
#include "analysis/policy/policies.h"

namespace kvloupe {

const std::vector<PolicyEntry>& policy_catalog() {
  static const std::vector<PolicyEntry> catalog = {
      // Scores
      policies::full(),
      policies::sink(),
      policies::tova(),
      policies::h2o(),
      policies::snapkv(),
      policies::keydiff(),
      policies::keynorm(),
      policies::random(),
      policies::oracle(),
      policies::external(),
      policies::expr(),
      // Modifiers
      policies::recent(),
      policies::sinks(),
      policies::adakv(),
      policies::pyramid(),
      policies::caote(),
      policies::fastcaote(),
      policies::critical(),
      policies::kvmerger(),
      policies::cam(),
  };
  return catalog;
}

const PolicyEntry* find_policy(std::string_view name) {
  const auto& catalog = policy_catalog();
  const auto found = std::find_if(catalog.begin(), catalog.end(),
                                  [&](const PolicyEntry& entry) { return entry.name == name; });
  return found == catalog.end() ? nullptr : &*found;
}

std::string_view kind_name(PartKind kind) {
  switch (kind) {
    case PartKind::score:
      return "score";
    case PartKind::protection:
      return "protection";
    case PartKind::allocation:
      return "allocation";
    case PartKind::value_aware:
      return "value-aware score";
    case PartKind::selection:
      return "selection";
    case PartKind::merging:
      break;
  }
  return "merging";
}

std::string_view type_name(ParameterType type) {
  switch (type) {
    case ParameterType::count:
      return "count";
    case ParameterType::flag:
      return "flag";
    case ParameterType::number:
      return "number";
    case ParameterType::share:
      return "share";
    case ParameterType::word:
      return "word";
    case ParameterType::number_or_word:
      return "number or word";
    case ParameterType::text:
      break;
  }
  return "text";
}

const ParameterInfo* PolicyEntry::parameter(std::string_view parameter_name) const {
  for (const ParameterInfo& parameter : parameters) {
    if (parameter.name == parameter_name) return &parameter;
  }
  return nullptr;
}

ScoreScale score_scale(const PolicySpec& spec) {
  const bool value_aware = std::any_of(spec.parts.begin(), spec.parts.end(), [](const auto& part) {
    const PolicyEntry* entry = find_policy(part.name);
    return entry != nullptr && entry->wrap_score;
  });
  const PolicyEntry* score = find_policy(spec.score().name);
  return value_aware || score == nullptr ? ScoreScale::common : score->scale;
}

std::string one_set_refusal(const PolicySpec& spec) {
  if (spec.score().name != "tova" || spec.score().word("aggregate") != "layer") return "";
  return "tova(layer) keeps one set for all heads of a layer, but this modifier decides for each "
         "head separately";
}

namespace {
const PolicyEntry& catalogued(const SpecPart& part) {
  const PolicyEntry* entry = find_policy(part.name);
  if (entry == nullptr) throw UsageError("policy: '" + part.name + "' is not in the catalogue");
  return *entry;
}
}  // namespace

void check_closed_loop(const PolicySpec& spec) {
  for (const SpecPart& part : spec.parts) {
    if (!catalogued(part).needs_future) continue;
    throw UsageError("policy: " + part.name +
                     " needs the following queries, which a running model does not know; replay it "
                     "on a trace instead");
  }
}

bool reads_output_weights(const PolicySpec& spec) {
  return std::any_of(spec.parts.begin(), spec.parts.end(),
                     [](const SpecPart& part) { return catalogued(part).reads_output_weights; });
}

SpecPart default_part(const PolicyEntry& entry) {
  SpecPart part;
  part.name = entry.name;
  for (const ParameterInfo& parameter : entry.parameters) {
    if (parameter.required) {
      throw UsageError("policy: " + entry.name + " needs " + parameter.name + ": " +
                       parameter.meaning);
    }
    part.arguments.emplace_back(parameter.name, parameter.default_value);
  }
  return part;
}

}  // namespace kvloupe
