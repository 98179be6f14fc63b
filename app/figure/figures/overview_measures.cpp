#include "app/figure/figures/overview_measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>

#include "analysis/math/head_roles.h"
#include "analysis/math/numeric/statistics.h"
#include "analysis/replay/measure/measure_catalog.h"

namespace kvloupe::figure {

double kept_overlap(const HeadReplay& a, const HeadReplay& b, int step, int first_unseen) {
  const auto keeps = [step](const HeadReplay& head) {
    return [&head, step](std::int32_t token) {
      const int gone = head.evicted_at[static_cast<std::size_t>(token)];
      return gone < 0 || gone > step;
    };
  };
  const std::size_t seen = std::min({static_cast<std::size_t>(std::max(first_unseen, 0)),
                                     a.evicted_at.size(), b.evicted_at.size()});
  return set_overlap(0, static_cast<std::int32_t>(seen), keeps(a), keeps(b))
      .jaccard(std::numeric_limits<double>::quiet_NaN());
}

const std::vector<OverviewMeasure>& overview_measures() {
  static const std::vector<OverviewMeasure> kMeasures = [] {
    const std::string asked =
        " Measured with the queries that write the answer, each with the entries in the cache when "
        "it comes; without an answer, with the question's queries; without both, with later ones. "
        "Over the whole replay, whatever the step.";
    std::vector<OverviewMeasure> list = {
        {kChangeMeasure, "change of the output",
         "The head's part of the change in the model: the length of (o' - o) W_O, "
         "relative to the outputs of all heads of all layers added up." +
             asked,
         MeasureGroup::later}};
    // Measures of a whole replay come last, because the figure shows a step.
    for (const bool of_replay : {false, true}) {
      for (const Measure& m : all_measures()) {
        const bool own = m.family->scope == MeasureScope::replay;
        // Among measures computed on request, only a number of one step is ready soon enough.
        const bool of_queries = m.family->scope == MeasureScope::queries;
        if (m.family->on_request && m.family->scope != MeasureScope::step && !of_queries) continue;
        if ((own || of_queries) == of_replay) {
          list.push_back({m.info->name, m.info->label.empty() ? m.info->title : m.info->label,
                          m.info->help, m.family->group});
        }
      }
    }
    list.push_back({kSinksMeasure, "attention to token 0",
                    "Mean of A[q,0] over the queries after token 0, with the full cache, mean over "
                    "the head's query heads. The same for every policy and step. Above 0.3 a head "
                    "counts as a sink head. After StreamingLLM §3.1.",
                    MeasureGroup::full_cache, OverviewMeasure::From::trace});
    list.push_back({kLayerChangeMeasure, "layer's change",
                    "The change of the layer's attention output, its heads added with "
                    "their signs, relative to that output. The same for all heads of a layer." +
                        asked,
                    MeasureGroup::later});
    list.push_back({kAttentionKeptMeasure, "attention kept, later",
                    "Attention that falls on entries which the cache still holds." + asked,
                    MeasureGroup::later});
    list.push_back({kEntriesMeasure, "entries kept", "Entries the head holds after the step.",
                    MeasureGroup::kept, OverviewMeasure::From::replay});
    list.push_back({kFollowedMeasure, "followed tokens",
                    "Share of the followed tokens that are still in the head's cache after the "
                    "step. A dot: the share of the answer's attention (else the question's) that "
                    "reads them with the full cache. A large dot on a dark cell is a head that "
                    "reads tokens that it lost.",
                    MeasureGroup::kept, OverviewMeasure::From::replay});
    list.push_back({kOverlapMeasure, "overlap A, B",
                    "Share of the tokens kept by either policy that both keep (Jaccard).",
                    MeasureGroup::kept, OverviewMeasure::From::both_policies});
    for (const RoleInfo& role : role_catalog()) {
      if (role.value == &HeadRoles::sink) continue;  // the sink's own is above
      list.push_back({role.name, fmt::format("role: {}", role.label),
                      fmt::format("{}, with the full cache, mean over the head's query heads: {}. "
                                  "The same for every policy and step. A query head has this role "
                                  "from {:g} upwards. {}.",
                                  role.title, role.formula, role.threshold, role.source),
                      MeasureGroup::full_cache, OverviewMeasure::From::trace});
    }
    list.push_back({kEffectiveTokensMeasure, "effective tokens",
                    "exp of the entropy of the attention: over how many tokens a query spreads its "
                    "attention, mean over the queries and over the head's query heads, with the "
                    "full cache. The same for every policy and step. This measure takes some "
                    "seconds: it needs the attention of all queries.",
                    MeasureGroup::full_cache, OverviewMeasure::From::trace});
    return list;
  }();
  return kMeasures;
}

const std::string& OverviewMeasure::session_word() const {
  const Measure* measure = find_measure(name);
  return measure != nullptr && measure->info->label.empty() && from == From::measure ? name : label;
}

std::string OverviewMeasure::title() const {
  std::string text = label;
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

const OverviewMeasure* find_overview_measure(std::string_view name) {
  const auto& all = overview_measures();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const OverviewMeasure& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace kvloupe::figure
