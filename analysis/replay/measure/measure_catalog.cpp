#include "analysis/replay/measure/measure_catalog.h"

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/base/text/catalog.h"
#include "analysis/base/text/unknown.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe {

namespace {

/// How many computed values the families of a scope have together.
int slots(MeasureScope scope) {
  int count = 0;
  for (const Measure& measure : all_measures()) {
    if (measure.slot >= 0 && measure.family->scope == scope) ++count;
  }
  return count;
}

bool computed(const MeasureFamily& family) {
  return family.of_query_head != nullptr || family.of_step != nullptr ||
         family.of_trace != nullptr || family.asked.has_value() || family.of_evidence;
}

bool applies_to(const MeasureFamily& family, const PolicySpec& policy) {
  return family.needs_part.empty() || policy.find(family.needs_part) != nullptr;
}

bool named(const MeasureInfo& info, const MeasureChoice& choice) {
  return std::any_of(choice.names.begin(), choice.names.end(),
                     [&](const std::string& name) { return name == "all" || name == info.name; });
}

bool wanted(const MeasureInfo& info, const MeasureFamily& family, const MeasureChoice& choice) {
  return (choice.cheap && !family.on_request) || named(info, choice);
}

bool wanted(const MeasureFamily& family, const MeasureChoice& choice) {
  return std::any_of(family.measures.begin(), family.measures.end(),
                     [&](const MeasureInfo& info) { return wanted(info, family, choice); });
}

/// Calls body(family, first slot) for the families of a scope that are computed and wanted.
template <typename Body>
void for_families(MeasureScope scope, const MeasureChoice& choice, const Body& body) {
  std::size_t first = 0;
  for (const MeasureFamily& family : measure_catalog()) {
    if (family.scope != scope || !computed(family)) continue;
    if (wanted(family, choice)) body(family, first);
    first += family.measures.size();
  }
}

bool only_of_last_step(const MeasureFamily& family) {
  return std::all_of(family.measures.begin(), family.measures.end(),
                     [](const MeasureInfo& info) { return info.summary == Summary::last; });
}

/// The values of the i-th query head of the group; of the full cache, they may be known from
/// another replay.
void measure_query_head(const MeasureFamily& family, MeasuredStep& step, int i, std::size_t number,
                        std::span<double> values) {
  const int query_head = step.first_query_head() + i;
  if (!family.of_full_cache || step.shared() == nullptr)
    return family.of_query_head(step, query_head, values);
  const std::vector<double> known = step.shared()->values(step.place(query_head), number, [&] {
    std::vector<double> computed(values.begin(), values.end());
    family.of_query_head(step, query_head, computed);
    return computed;
  });
  std::copy(known.begin(), known.end(), values.begin());
}

/// The mean over steps and query heads, with the family's treatment of unknown values.
class Mean {
 public:
  explicit Mean(const Measure& measure) : skips_unknown_(!measure.family->at_every_step) {}
  void add(double value) {
    if (skips_unknown_ && std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : kUnknown; }

 private:
  bool skips_unknown_;
  double sum_ = 0.0;
  long count_ = 0;
};

double slot_value(const std::vector<double>& values, int slot) {
  const auto index = static_cast<std::size_t>(slot);
  return slot >= 0 && index < values.size() ? values[index] : kUnknown;
}

/// Whether a query head has no share although the whole is known: no entry with attention was
/// evicted. Means leave such a head out. They do not leave out an unknown bound (merging).
bool has_nothing_to_reach(const Measure& measure, const QueryHeadRecord& own) {
  if (measure.info->share_of.empty()) return false;
  return !std::isnan(slot_value(own.values, require_measure(measure.info->share_of).slot)) &&
         std::isnan(slot_value(own.values, measure.slot));
}

/// With OneValueFor in words.
MeasureFamily explained(MeasureFamily family) {
  for (MeasureInfo& info : family.measures) {
    if (info.one_value_for == OneValueFor::head) continue;
    info.help += info.one_value_for == OneValueFor::model
                     ? " The same for all heads: it ranks none."
                     : " The same for all heads of the layer: it ranks none.";
  }
  return family;
}

Catalog<MeasureFamily>& catalog() {
  static Catalog<MeasureFamily> all({
#define KVLOUPE_MEASURE_FAMILY(name) explained(measures::name()),
      KVLOUPE_MEASURES(KVLOUPE_MEASURE_FAMILY)
#undef KVLOUPE_MEASURE_FAMILY
  });
  return all;
}
}  // namespace

const std::vector<MeasureFamily>& measure_catalog() { return catalog().read(); }

void add_measures(MeasureFamily family) { catalog().add(explained(std::move(family))); }

const char* group_title(MeasureGroup group) {
  constexpr const char* kTitles[] = {
      "What eviction changes for later queries", "What eviction changes for the step's last query",
      "What is kept", "Scores, keys and attention", "The head with the full cache"};
  return kTitles[static_cast<int>(group)];
}

const char* scope_name(MeasureScope scope) {
  constexpr const char* kNames[] = {"query head and step", "head and step", "head and replay",
                                    "head and replay", "head of the trace"};
  return kNames[static_cast<int>(scope)];
}

const std::vector<Measure>& all_measures() {
  static const std::vector<Measure> all = [] {
    std::vector<Measure> list;
    int next[] = {0, 0, 0, 0, 0};  // by scope
    for (const MeasureFamily& family : measure_catalog()) {
      for (const MeasureInfo& info : family.measures) {
        int& slot = next[static_cast<int>(family.scope)];
        list.push_back({&info, &family, computed(family) ? slot++ : -1});
      }
    }
    return list;
  }();
  return all;
}

const Measure* find_measure(std::string_view name) {
  const auto& all = all_measures();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Measure& m) { return m.info->name == name; });
  return found == all.end() ? nullptr : &*found;
}

const Measure& require_measure(std::string_view name) {
  if (const Measure* found = find_measure(name)) return *found;
  std::vector<std::string> names;
  for (const Measure& measure : all_measures()) names.push_back(measure.info->name);
  throw UsageError("measure '" + std::string(name) + "': unknown; the nearest is '" +
                   nearest_word(std::string(name), names) + "'");
}

bool applies(const Measure& measure, const PolicySpec& policy) {
  return applies_to(*measure.family, policy);
}

double measure_at(const Measure& measure, const StepRecord& record, int query_head) {
  if (measure.family->scope == MeasureScope::step) {
    return measure.info->of_step != nullptr ? measure.info->of_step(record)
                                            : slot_value(record.values, measure.slot);
  }
  if (measure.family->scope != MeasureScope::query_head || record.query_heads.empty()) {
    return kUnknown;
  }
  const auto of = [&](const QueryHeadRecord& own) { return slot_value(own.values, measure.slot); };
  if (query_head >= 0) return of(record.query_heads.at(static_cast<std::size_t>(query_head)));
  Mean mean(measure);
  for (const QueryHeadRecord& own : record.query_heads) {
    if (!has_nothing_to_reach(measure, own)) mean.add(of(own));
  }
  return mean.value();
}

std::size_t first_measured_step(const HeadReplay& head) {
  std::size_t step = 0;
  while (step + 1 < head.steps.size() && head.steps[step].retained == head.steps[step].cache_size &&
         head.steps[step].rounded == 0) {
    ++step;
  }
  return step;
}

double measure_of(const Measure& measure, const HeadReplay& head) {
  switch (measure.family->scope) {
    case MeasureScope::replay:
      return measure.info->of_replay(head);
    case MeasureScope::trace:
      return slot_value(head.trace_values, measure.slot);
    case MeasureScope::queries:
      return slot_value(head.asked_values, measure.slot);
    case MeasureScope::step:
    case MeasureScope::query_head:
      break;
  }
  if (head.steps.empty()) return kUnknown;
  if (measure.info->summary == Summary::last) return measure_at(measure, head.steps.back());
  // Every query head of every step counts alike.
  Mean mean(measure);
  for (std::size_t step = first_measured_step(head); step < head.steps.size(); ++step) {
    const StepRecord& record = head.steps[step];
    const int count = measure.family->scope == MeasureScope::query_head
                          ? static_cast<int>(record.query_heads.size())
                          : 1;
    for (int i = 0; i < count; ++i) {
      if (measure.family->scope == MeasureScope::query_head &&
          has_nothing_to_reach(measure, record.query_heads[static_cast<std::size_t>(i)])) {
        continue;
      }
      mean.add(measure_at(measure, record, i));
    }
  }
  return mean.value();
}

std::vector<std::string> with_made_of(std::span<const std::string> names) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    result.push_back(name);
    if (name == "all") continue;
    for (const std::string& part : with_made_of(require_measure(name).info->made_of))
      result.push_back(part);
  }
  return result;
}

StateParts parts_read(const MeasureChoice& choice, const PolicySpec& policy) {
  StateParts parts = StateParts::keys_only();
  for (const Measure& measure : all_measures()) {
    if (measure.slot < 0 || !applies(measure, policy)) continue;
    if (wanted(*measure.info, *measure.family, choice)) parts = parts.with(measure.info->reads);
  }
  return parts;
}

bool reads_scores(const MeasureChoice& choice, const PolicySpec& policy) {
  return std::any_of(
      measure_catalog().begin(), measure_catalog().end(), [&](const MeasureFamily& family) {
        return family.reads_scores && applies_to(family, policy) && wanted(family, choice);
      });
}

void measure_step(MeasuredStep& step, const MeasureChoice& choice, bool last, StepRecord& record) {
  record.values.assign(static_cast<std::size_t>(slots(MeasureScope::step)), kUnknown);
  const auto measured = [&](const MeasureFamily& family) {
    return applies_to(family, step.policy()) &&
           (!choice.summary || last || !only_of_last_step(family));
  };
  for_families(MeasureScope::step, choice, [&](const MeasureFamily& family, std::size_t first) {
    if (!measured(family)) return;
    family.of_step(step, std::span(record.values).subspan(first, family.measures.size()));
  });
  const auto per_query_head = static_cast<std::size_t>(slots(MeasureScope::query_head));
  record.query_heads.resize(static_cast<std::size_t>(step.group()));
  for (std::size_t i = 0; i < record.query_heads.size(); ++i) {
    std::vector<double>& values = record.query_heads[i].values;
    values.assign(per_query_head, kUnknown);
    for_families(MeasureScope::query_head, choice,
                 [&](const MeasureFamily& family, std::size_t first) {
                   if (!measured(family)) return;
                   measure_query_head(family, step, static_cast<int>(i), first,
                                      std::span(values).subspan(first, family.measures.size()));
                 });
  }
}

std::vector<Asked> asked_by(const MeasureChoice& choice) {
  std::vector<Asked> asked;
  for (const MeasureFamily& family : measure_catalog()) {
    if (family.asked && wanted(family, choice)) asked.push_back(*family.asked);
  }
  return asked;
}

bool asks_evidence(const MeasureChoice& choice) {
  return std::any_of(
      measure_catalog().begin(), measure_catalog().end(),
      [&](const MeasureFamily& family) { return family.of_evidence && wanted(family, choice); });
}

void set_asked(Asked asked, std::string_view name, double value, HeadReplay& head) {
  set_asked(std::string(asked_name(asked)) + "_" + std::string(name), value, head);
}

void set_asked(const std::string& name, double value, HeadReplay& head) {
  const Measure& measure = require_measure(name);
  head.asked_values.resize(static_cast<std::size_t>(slots(MeasureScope::queries)), kUnknown);
  head.asked_values[static_cast<std::size_t>(measure.slot)] = value;
}

std::vector<double> measure_head(const MeasuredHead& head, const MeasureChoice& choice) {
  std::vector<double> values(static_cast<std::size_t>(slots(MeasureScope::trace)), kUnknown);
  for_families(MeasureScope::trace, choice, [&](const MeasureFamily& family, std::size_t first) {
    family.of_trace(head, std::span(values).subspan(first, family.measures.size()));
  });
  return values;
}

}  // namespace kvloupe
