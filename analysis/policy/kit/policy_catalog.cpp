#include "analysis/policy/kit/policy_catalog.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/catalog.h"
#include "analysis/policy/kit/outside_parts.h"

namespace kvloupe {

namespace {
Catalog<PolicyEntry>& catalog() {
  static Catalog<PolicyEntry> all([] {
    std::vector<PolicyEntry> listed;
    if (kvloupe_list_policies != nullptr) kvloupe_list_policies(listed);
    return listed;
  }());
  return all;
}

/// By the name of the part. Filled before the catalogue is read.
std::map<std::string, PartOrigin, std::less<>>& origins() {
  static std::map<std::string, PartOrigin, std::less<>> all;
  return all;
}
}  // namespace

std::function<OwnProtection(const SpecPart&)> protects(std::string first, std::string last) {
  return [first = std::move(first), last = std::move(last)](const SpecPart& part) {
    OwnProtection own;
    if (!first.empty()) own.first_tokens = part.count(first);
    if (!last.empty()) own.last_entries = part.argument(last);
    return own;
  };
}

ParameterInfo count_parameter(std::string name, double standard, double minimum, double maximum,
                              std::string meaning) {
  return {.name = std::move(name),
          .type = ParameterType::count,
          .default_value = standard,
          .minimum = minimum,
          .maximum = maximum,
          .meaning = std::move(meaning)};
}

ParameterInfo flag_parameter(std::string name, double standard, std::string meaning) {
  ParameterInfo info = count_parameter(std::move(name), standard, 0, 1, std::move(meaning));
  info.type = ParameterType::flag;
  return info;
}

ParameterInfo number_parameter(std::string name, double standard, double minimum, double maximum,
                               std::string meaning) {
  ParameterInfo info =
      count_parameter(std::move(name), standard, minimum, maximum, std::move(meaning));
  info.type = ParameterType::number;
  return info;
}

ParameterInfo share_parameter(std::string name, SpecValue standard, double minimum, double maximum,
                              std::string meaning) {
  ParameterInfo info = count_parameter(std::move(name), 0, minimum, maximum, std::move(meaning));
  info.type = ParameterType::share;
  info.default_value = std::move(standard);
  return info;
}

ParameterInfo word_parameter(std::string name, std::string standard, std::vector<std::string> words,
                             std::string meaning) {
  return {.name = std::move(name),
          .type = ParameterType::word,
          .default_value = std::move(standard),
          .words = std::move(words),
          .meaning = std::move(meaning)};
}

ParameterInfo number_or_word_parameter(std::string name, SpecValue standard, double minimum,
                                       double maximum, std::vector<std::string> words,
                                       std::string meaning) {
  ParameterInfo info = number_parameter(std::move(name), 0.0, minimum, maximum, std::move(meaning));
  info.type = ParameterType::number_or_word;
  info.default_value = std::move(standard);
  info.words = std::move(words);
  return info;
}

ParameterInfo text_parameter(std::string name, std::string standard, std::string meaning,
                             std::function<std::optional<TextProblem>(std::string_view)> check) {
  return {.name = std::move(name),
          .type = ParameterType::text,
          .default_value = std::move(standard),
          .meaning = std::move(meaning),
          .check = std::move(check)};
}

ParameterInfo file_parameter(std::string name, std::string meaning, bool required) {
  ParameterInfo info = text_parameter(std::move(name), "", std::move(meaning));
  info.required = required;
  info.names_file = true;
  return info;
}

std::function<CostOrder(const SpecPart&)> costs(std::string_view order,
                                                double (*units)(const StepShape&)) {
  return [=](const SpecPart&) { return CostOrder{order, order, units, units}; };
}

const std::vector<PolicyEntry>& policy_catalog() { return catalog().read(); }

void add_policy(PolicyEntry entry) {
  const bool score = entry.kind() == PartKind::score;
  catalog().add(std::move(entry),
                [&](const PolicyEntry& other) { return score && other.kind() != PartKind::score; });
}

bool is_taken(std::string_view name) {
  return catalog().has([&](const PolicyEntry& entry) { return entry.name == name; });
}

void add_policy(PolicyEntry entry, PartOrigin origin) {
  const std::string name = entry.name;
  add_policy(std::move(entry));
  origins().insert_or_assign(name, std::move(origin));
}

const PartOrigin* origin_of(std::string_view name) {
  const auto found = origins().find(name);
  return found == origins().end() ? nullptr : &found->second;
}

const PolicyEntry* find_policy(std::string_view name) {
  const auto& catalog = policy_catalog();
  const auto found = std::find_if(catalog.begin(), catalog.end(),
                                  [&](const PolicyEntry& entry) { return entry.name == name; });
  return found == catalog.end() ? nullptr : &*found;
}

std::string_view kind_name(PartKind kind) {
  // In the order of the enum.
  static constexpr std::string_view kNames[] = {
      "score",     "protection", "allocation", "value-aware score", "grouping",
      "selection", "merging",    "removal",    "schedule",          "storage"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view type_name(ParameterType type) {
  // In the order of the enum.
  static constexpr std::string_view kNames[] = {"count", "flag",           "number", "share",
                                                "word",  "number or word", "text"};
  return kNames[static_cast<std::size_t>(type)];
}

const ParameterInfo* PolicyEntry::parameter(std::string_view parameter_name) const {
  for (const ParameterInfo& parameter : parameters) {
    if (parameter.name == parameter_name) return &parameter;
  }
  return nullptr;
}

namespace {
struct BuilderFacts {
  PartKind kind;
  const char* done_once;  // PolicyEntry::done_once()
};
// In the order of PartBuilder.
constexpr BuilderFacts kBuilders[std::variant_size_v<PartBuilder>] = {
    {PartKind::score, "are scores"},
    {PartKind::score, "decide by themselves"},
    {PartKind::protection, ""},
    {PartKind::allocation, "set the layers' budgets"},
    {PartKind::allocation, "share a layer's budget out"},
    {PartKind::value_aware, "replace the score"},
    {PartKind::grouping, "group the score"},
    {PartKind::selection, "select"},
    {PartKind::selection, "keep whole pages"},
    {PartKind::merging, "merge"},
    {PartKind::removal, ""},
    {PartKind::schedule, ""},
    {PartKind::storage, "say how entries are held"}};
}  // namespace

PartKind PolicyEntry::kind() const { return kBuilders[builder.index()].kind; }

std::string PolicyEntry::done_once() const { return kBuilders[builder.index()].done_once; }

const PolicyEntry& entry_of(const SpecPart& part) {
  const PolicyEntry* entry = find_policy(part.name);
  if (entry == nullptr) throw UsageError("policy: '" + part.name + "' is not in the catalogue");
  return *entry;
}

PolicyTraits traits_of(const SpecPart& part) {
  const PolicyEntry& entry = entry_of(part);
  PolicyTraits traits = entry.traits;
  if (entry.traits_by_arguments) entry.traits_by_arguments(part, traits);
  return traits;
}

bool has_trait(const PolicySpec& spec, bool PolicyTraits::*trait) {
  return std::any_of(spec.parts.begin(), spec.parts.end(),
                     [&](const SpecPart& part) { return traits_of(part).*trait; });
}

bool has_part(const PolicySpec& spec, PartKind kind) {
  return std::any_of(spec.parts.begin(), spec.parts.end(),
                     [&](const SpecPart& part) { return entry_of(part).kind() == kind; });
}

std::optional<Quantisation> quantisation_of(const PolicySpec& spec) {
  for (const SpecPart& part : spec.parts) {
    const auto* storage = entry_of(part).as<StorageBuilder>();
    if (storage != nullptr) return storage->make(part);
  }
  return std::nullopt;
}

bool makes_entries(const SpecPart& part) {
  return entry_of(part).kind() == PartKind::merging || traits_of(part).makes_entries;
}

bool makes_entries(const PolicySpec& spec) {
  return std::any_of(spec.parts.begin(), spec.parts.end(),
                     [](const SpecPart& part) { return makes_entries(part); });
}

bool keeps_everything(const PolicySpec& spec) {
  return has_trait(spec, &PolicyTraits::keeps_everything) && !has_part(spec, PartKind::removal) &&
         !has_part(spec, PartKind::storage);
}

const SpecPart* next_alike(const SpecPart& part, const PolicySpec& spec) {
  const std::size_t type = entry_of(part).builder.index();
  bool after = false;
  for (const SpecPart& other : spec.parts) {
    if (after && entry_of(other).builder.index() == type) return &other;
    after = after || other == part;
  }
  return nullptr;
}

ScoreScale base_scale(const PolicySpec& spec) {
  const auto* score = entry_of(spec.score()).as<ScoreBuilder>();
  return score != nullptr ? score->scale : ScoreScale::attention;
}

ScoreScale score_scale(const PolicySpec& spec) {
  return has_part(spec, PartKind::value_aware) ? ScoreScale::common : base_scale(spec);
}

std::string one_set_refusal(const SpecPart&, const PolicySpec& spec) {
  const auto* score = entry_of(spec.score()).as<ScoreBuilder>();
  const auto grouping = std::find_if(
      spec.parts.begin(), spec.parts.end(),
      [](const SpecPart& part) { return entry_of(part).kind() == PartKind::grouping; });
  const bool by_score =
      score != nullptr && score->keeps_one_set && score->keeps_one_set(spec.score());
  if (!by_score && grouping == spec.parts.end()) return "";
  return (by_score ? PolicySpec{{spec.score()}}.text() : grouping->name) +
         " keeps one set for the heads of a layer, but this modifier decides for each head "
         "separately";
}

std::string whole_policy_refusal(const PolicyEntry& modifier, const PolicySpec& spec) {
  const PolicyEntry& score = entry_of(spec.score());
  if (score.as<WholePolicyBuilder>() == nullptr) return "";
  if (modifier.as<StorageBuilder>() != nullptr) return "";  // decides nothing
  const bool everything = score.traits.keeps_everything;
  if (everything && modifier.as<RemovalBuilder>() != nullptr) return "";
  return score.name + " makes all decisions itself; remove the modifiers" +
         (everything ? " other than drop and quant" : " other than quant");
}

std::optional<CostOrder> cost_order(const PolicySpec& spec) {
  const PolicyEntry& score = entry_of(spec.score());
  if (!score.cost) return std::nullopt;
  return score.cost(spec.score());
}

bool names_file(const SpecPart& part) {
  const auto& all = entry_of(part).parameters;
  return std::any_of(all.begin(), all.end(), [&](const ParameterInfo& parameter) {
    return parameter.names_file && !part.word(parameter.name).empty();
  });
}

void check_closed_loop(const PolicySpec& spec, bool runs_probe, bool knows_texts,
                       bool decides_after_pass) {
  for (const SpecPart& part : spec.parts) {
    const PolicyTraits traits = traits_of(part);
    if (traits.reads_probe) {
      if (runs_probe) continue;
      throw UsageError(
          "policy: " + part.name +
          " reads the context a second time before it evicts. A running model does this in "
          "run --block all, for needles in eval, in rescue, and for needles, answers and "
          "drift in studies. Perplexity is measured while the text is read, and then "
          "nothing has been evicted yet");
    }
    if (traits.reads_sequence && !names_file(part)) {
      throw UsageError("policy: " + part.name +
                       " needs all layers of the sequence, which a running model does not know "
                       "beforehand; name a trace of the same model: " +
                       part.name + "(statistics=\"trace.h5\")");
    }
    if (traits.reads_structure && !knows_texts) {
      throw UsageError("policy: " + part.name +
                       " reads the texts of the tokens, which are not known here; run it with "
                       "kvloupe-capture run, eval or study, in a model with a tokenizer, or replay "
                       "it on a trace");
    }
    if (traits.reads_pass && !decides_after_pass) {
      throw UsageError("policy: " + part.name +
                       " decides once all layers have read a block, and here each layer decides by "
                       "itself; run it with kvloupe-capture run, eval or study, or replay it on a "
                       "trace");
    }
    if (!traits.needs_future) continue;
    throw UsageError("policy: " + part.name +
                     " needs the following queries, which a running model does not know; replay it "
                     "on a trace instead");
  }
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
