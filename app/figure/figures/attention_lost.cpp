// The share of the later attention that goes to evicted entries, by the share evicted: beside the
// best choice there is, and beside chance.

#include "analysis/replay/attention_lost.h"

#include <fmt/ranges.h>

#include "analysis/policy/published.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::attention_lost_figure {

namespace {

/// Heads whose lost attention is known.
std::vector<const AttentionLost*> known(const std::vector<AttentionLost>& heads) {
  std::vector<const AttentionLost*> result;
  for (const AttentionLost& head : heads) {
    if (std::isfinite(head.least.back())) result.push_back(&head);
  }
  return result;
}

double percent(int evicted, const AttentionLost& head) {
  return head.entries > 0 ? 100.0 * evicted / head.entries : 0.0;
}

void sort_by_x(std::vector<Point>& points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.x < b.x; });
}

/// One head's optimum, at most so many points.
LinePanels::Line optimum_of(const AttentionLost& head) {
  constexpr std::size_t kMost = 200;
  LinePanels::Line line;
  const std::size_t last = head.least.size() - 1;
  const std::size_t by = std::max<std::size_t>(1, last / kMost);
  for (std::size_t evicted = 0; evicted < last; evicted += by) {
    line.points.push_back({percent(static_cast<int>(evicted), head), 100.0 * head.least[evicted]});
  }
  line.points.push_back({100.0, 100.0 * head.least[last]});
  return line;
}

LinePanels::Line curve_of(const AttentionLost& head, std::size_t policy) {
  LinePanels::Line line;
  line.points.push_back({0.0, 0.0});
  for (const AttentionLost::Point& point : head.points[policy]) {
    if (point.evicted > 0)
      line.points.push_back({percent(point.evicted, head), 100.0 * point.lost});
  }
  sort_by_x(line.points);
  return line;
}

/// Median and quartiles over the heads of numbers at each of several places.
struct Spread {
  LinePanels::Line median;
  LinePanels::Band band;
  explicit Spread(const std::string& name) {
    band.low_id = name + ", first quartile";
    band.high_id = name + ", third quartile";
  }
  void add(double x, const std::vector<double>& values) {
    median.points.push_back({x, quantile(values, 0.5)});
    band.x.push_back(x);
    band.low.push_back(quantile(values, 0.25));
    band.high.push_back(quantile(values, 0.75));
  }
};

Spread optimum_spread(const std::vector<const AttentionLost*>& heads) {
  Spread spread("optimum");
  for (int x = 0; x <= 100; x += 2) {
    std::vector<double> values;
    for (const AttentionLost* head : heads) {
      const auto evicted = static_cast<std::size_t>(std::lround(0.01 * x * head->entries));
      values.push_back(100.0 * head->least[evicted]);
    }
    spread.add(x, values);
  }
  return spread;
}

/// Each budget stands at the mean share that the heads evict under it.
Spread curve_spread(const std::vector<const AttentionLost*>& heads, std::size_t policy,
                    const std::string& name) {
  struct Place {
    double x;
    std::vector<double> values;
  };
  std::vector<Place> places = {{0.0, std::vector<double>(heads.size(), 0.0)}};
  for (std::size_t budget = 0; budget < heads.front()->points[policy].size(); ++budget) {
    Place place{0.0, {}};
    for (const AttentionLost* head : heads) {
      const AttentionLost::Point& point = head->points[policy][budget];
      place.x += percent(point.evicted, *head) / static_cast<double>(heads.size());
      place.values.push_back(100.0 * point.lost);
    }
    if (place.x > 0.0) places.push_back(std::move(place));
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.x < b.x; });
  Spread spread(name);
  for (const Place& place : places) spread.add(place.x, place.values);
  return spread;
}

/// The policies' losses where about half of the entries are gone.
std::string at_half(const std::vector<LinePanels::Line>& lines) {
  std::string text;
  for (const LinePanels::Line& line : lines) {
    const auto nearest = std::min_element(
        line.points.begin(), line.points.end(),
        [](const Point& a, const Point& b) { return std::abs(a.x - 50.0) < std::abs(b.x - 50.0); });
    if (nearest == line.points.end() || std::abs(nearest->x - 50.0) > 10.0) continue;
    text += fmt::format("{}{} {} %", text.empty() ? " With about half evicted: " : ", ", line.name,
                        format_number(nearest->y));
  }
  return text.empty() ? text : text + ".";
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const Trace& trace = *input.trace;
  const bool of_heads = input.choice("show") == "heads";
  AttentionLostRequest request;
  request.policies = chosen_policies(input);
  if (trace.length() < 2)
    throw WorkError("a trace of one token has no later query that could judge");
  request.prefix = std::clamp(
      static_cast<int>(std::lround(chosen_number(input, kPrefixChoice) * trace.length())), 1,
      trace.length() - 1);
  for (const Budget& budget : chosen_budgets(input)) {
    const int entries = budget_entries(budget, trace, {}, request.prefix);
    if (request.budgets.empty() || request.budgets.back() != entries)
      request.budgets.push_back(entries);
  }
  request.sinks = static_cast<int>(chosen_number(input, "sinks"));
  request.states = &input.replays->states();
  if (!of_heads) {
    request.layers = {s.layer};
    request.query_head = s.query_head;
  }
  std::vector<AttentionLost> all = attention_lost(trace, request, progress);
  if (!of_heads) all = {all.at(static_cast<std::size_t>(s.head))};
  const std::vector<const AttentionLost*> heads = known(all);
  if (heads.empty())
    throw WorkError(
        "the queries after the prefix pay no attention to its entries; choose another prefix or "
        "fewer sinks");

  LinePanels::Panel panel;
  std::vector<LinePanels::Line> lines;
  LinePanels::Line least;
  if (of_heads) {
    Spread spread = optimum_spread(heads);
    spread.band.look = -1;
    panel.bands.push_back(std::move(spread.band));
    least = std::move(spread.median);
  } else {
    least = optimum_of(*heads.front());
  }
  for (std::size_t p = 0; p < request.policies.size(); ++p) {
    LinePanels::Line line;
    if (of_heads) {
      Spread spread = curve_spread(heads, p, request.policies[p].text());
      spread.band.look = static_cast<int>(p);
      panel.bands.push_back(std::move(spread.band));
      line = std::move(spread.median);
    } else {
      line = curve_of(*heads.front(), p);
    }
    line.name = request.policies[p].text();
    line.look = static_cast<int>(p);
    line.marked = true;
    lines.push_back(std::move(line));
  }
  const std::string half = at_half(lines);
  least.name = "optimum";
  least.look = -1;
  panel.lines = {
      {.name = "chance", .points = {{0.0, 0.0}, {100.0, 100.0}}, .look = -1, .dashed = true},
      std::move(least)};
  for (LinePanels::Line& line : lines) panel.lines.push_back(std::move(line));
  panel.x = x_axis("Entries evicted (%)", {0.0, 100.0});
  panel.y = y_axis("Attention lost (%)", {0.0, 100.0});
  panel.y_grid = true;
  auto figure = line_panels("evicted_percent", "lost_percent", {std::move(panel)});
  figure->legend = true;
  figure->aspect = 1.25;
  const std::string where =
      of_heads ? fmt::format("median over the {} heads, bands from the first to the third quartile",
                             heads.size())
      : s.query_head >= 0 ? fmt::format("layer {}, query head {}", s.layer, s.query_head)
                          : fmt::format("layer {}, head {}", s.layer, s.head);
  const std::string sinks =
      request.sinks > 0 ? fmt::format(", without the first {} tokens", request.sinks) : "";
  figure->caption_text = fmt::format(
      "Attention of the last {} queries that goes to evicted entries, as a share of their "
      "attention to all {} tokens before them{}; {}. These tokens are read with the full cache, "
      "then each policy acts once at each budget. Optimum: the entries with the least later "
      "attention leave; dashed: random eviction, on average.{}",
      format_count(trace.length() - request.prefix), format_count(request.prefix), sinks, where,
      half);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "attention-lost", "Attention lost by eviction",
      "Attention of all later queries to the evicted entries, as a share of their attention to all "
      "entries (Devoto et al. 2025, expected attention, notebook of kvpress). The first tokens are "
      "read with the full cache, then each policy acts once at each budget. With as many entries, "
      "a policy cannot lose less than the optimum",
      Topic::comparisons, compute, kColumn, 1.1);
  info.needs = {.head = true, .comparison = true};
  info.choices = {
      word_choice("show", "Show",
                  "The selected head, or the distribution over all heads of the trace",
                  {"head", "heads"}),
      policies_choice(published_list({"A", "B", "snapkv", "keynorm"})),
      budgets_choice("2.5%,5%,10%,20%,30%,40%,50%,60%,70%,80%,90%"),
      number_choice("prefix", "Prefix",
                    "Share of the trace's tokens that is compressed. The queries after it are the "
                    "later queries, and budgets in % are shares of it",
                    "0.5", 0.0, 1.0),
      number_choice("sinks", "Sinks", "Number of first tokens that are left out of all counts", "4",
                    0.0, 1e6)};
  info.unavailable = without_full_cache;
  return info;
}

}  // namespace kvloupe::figure::attention_lost_figure
