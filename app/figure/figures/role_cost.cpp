// Effect of a policy on each kind of head: entries kept and attention lost, by the role of the
// query heads.

#include <map>
#include <utility>

#include "analysis/base/text/unknown.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::role_cost_figure {

namespace {

/// Over the query heads of one role.
struct Sums {
  double kept = 0.0, heads = 0.0;  // shares of the cache, each query head's
  double lost = 0.0, known = 0.0;
  double kept_percent() const { return heads > 0.0 ? 100.0 * kept / heads : kUnknown; }
  double lost_percent() const { return known > 0.0 ? 100.0 * lost / known : kUnknown; }
};

/// Whether a head belongs to a row: one for each role, then one for heads without a name.
bool is_in_row(const HeadRoles& head, std::size_t row) {
  const int name = strongest_role(head);
  if (row == role_catalog().size()) return name < 0;
  return role_catalog()[row].beside ? rests_on_sink(head) : name == static_cast<int>(row);
}

/// The roles of each head's query heads, by layer and head.
using RolesOfHeads = std::map<std::pair<int, int>, std::vector<HeadRoles>>;

/// [roles, then one for heads without a name] of one policy after one step. Heads that rest on the
/// sink count in its row beside the row of their name.
std::vector<Sums> sums_of(const Replay& replay, int step, const RolesOfHeads& roles) {
  const Measure& mass = require_measure("retained_mass");
  std::vector<Sums> sums(role_catalog().size() + 1);
  const double seen = replay.blocks.at(static_cast<std::size_t>(step)).end;
  for (const HeadReplay& head : replay.heads) {
    const StepRecord& record = head.steps.at(static_cast<std::size_t>(step));
    const int group = static_cast<int>(record.query_heads.size());
    for (int i = 0; i < group; ++i) {
      const HeadRoles& one = roles.at({head.layer, head.head}).at(static_cast<std::size_t>(i));
      const double kept = measure_at(mass, record, i);
      for (std::size_t row = 0; row < sums.size(); ++row) {
        if (!is_in_row(one, row)) continue;
        Sums& own = sums[row];
        own.kept += record.retained / seen;
        own.heads += 1.0;
        if (!std::isfinite(kept)) continue;
        own.lost += 1.0 - kept;
        own.known += 1.0;
      }
    }
  }
  return sums;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const int step = input.selection.step;
  std::vector<WantedReplay> wanted{
      {.policy = input.spec_a, .measures = {"retained_mass"}, .steps = {step}}};
  if (input.spec_b) {
    wanted.push_back(wanted.front());
    wanted.back().policy = *input.spec_b;
  }
  const auto replays = replays_of(input, wanted, progress);

  ReadsRequest request{.tokens = {0}, .roles = true, .states = &input.replays->states()};
  RolesOfHeads roles;
  for (const TokenReads& head : token_reads(trace, request, progress))
    roles[{head.layer, head.head}] = head.roles;

  auto figure = std::make_unique<Strips>();
  std::vector<std::vector<Sums>> sums;
  for (const auto& replay : replays) sums.push_back(sums_of(*replay, step, roles));
  Strips::Column kept, lost;
  kept.title = "Entries kept";
  lost.title = "Attention lost";
  for (std::size_t p = 0; p < replays.size(); ++p) {
    Strips::Series kept_series{replays[p]->policy, p == 0, {}};
    Strips::Series lost_series = kept_series;
    for (std::size_t role = 0; role < sums[p].size(); ++role) {
      const Sums& own = sums[p][role];
      if (own.heads == 0.0) continue;
      // One above the other: both are seen where they are equal.
      const double place = replays.size() > 1 ? 0.36 + 0.28 * static_cast<double>(p) : 0.5;
      kept_series.rows.push_back({{own.kept_percent(), place, {}, {}}});
      lost_series.rows.push_back({{own.lost_percent(), place, {}, {}}});
    }
    kept.series.push_back(std::move(kept_series));
    lost.series.push_back(std::move(lost_series));
  }
  for (std::size_t role = 0; role < sums.front().size(); ++role) {
    const double heads = sums.front()[role].heads;
    if (heads == 0.0) continue;
    figure->row_names.push_back(
        fmt::format("{} ({:.0f})",
                    role < role_catalog().size() ? role_catalog()[role].label : "no name", heads));
  }
  kept.x = x_axis("Share of tokens seen (%)", range_of(kept.series).from_zero());
  lost.x = x_axis("Share of attention (%)", range_of(lost.series).from_zero());
  figure->columns = {std::move(kept), std::move(lost)};
  figure->y = name_axis(figure->row_names);
  figure->measure = "percent";
  figure->row_measure = "role";
  figure->caption_text = fmt::format(
      "Entries kept after step {}, mean budget N = {}, in percent of the tokens seen, and "
      "attention of the step's last query that goes to evicted tokens, means over the query heads "
      "of each role (their number in brackets). A head has the name of its strongest role with the "
      "full cache; heads that rest on the sink are also in a row of their own, whatever their "
      "name.",
      step, format_count(replays.front()->budget));
  for (std::size_t p = 0; p < replays.size() && replays.size() > 1; ++p) {
    figure->caption_text += fmt::format(" {}: {}{}", p == 0 ? "Filled" : "open", replays[p]->policy,
                                        p == 0 ? ";" : ".");
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "role-cost", "Entries and attention by role",
      "By the role of the query heads (figure roles): entries kept after the step, and the share "
      "of the last query's attention, as with the full cache, that goes to evicted tokens",
      Topic::kept, compute, 120.0, 2.0);
  info.needs = {.step = true, .beside = true, .comparison = true};
  return info;
}

}  // namespace kvloupe::figure::role_cost_figure
