// A measure against the budget: every head thin, their mean bold, and the budget from which on it
// stays within a limit. Whether an answer stays right there, only runs of the model can say.

#include <numeric>

#include "analysis/math/sink.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/published.h"
#include "analysis/policy/random_line.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::budget_curve_figure {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// A measure of the catalogue that a curve can show, or 1 less it.
struct CurveMeasure {
  const char* choice;
  std::string name;
  const char* label = nullptr;  // nullptr: the measure's title
  bool lost = false;            // 1 − the measure
  /// A measure of later queries: the name without the kind of queries, which the trace decides.
  bool asked = false;
  const char* whole = nullptr;  // of the model as a whole: what is bold, in place of a mean

  const MeasureInfo& info() const { return *require_measure(name).info; }
  std::string text() const { return label != nullptr ? label : info().title; }
  bool more_is_better() const { return (info().better == Better::larger) != lost; }
};
/// Made when it is first asked for: catalogues are put together before main().
const std::vector<CurveMeasure>& measures() {
  static const std::vector<CurveMeasure> all = {
      {"change", "residual_part", "Change of the output", false, true, "residual_change"},
      {"layer-error", "layer_error", "Change of a layer's output", false, true,
       "worst_layer_error"},
      {"later-mass", "kept_attention", "Later attention lost", true, true},
      {"lost-mass", "retained_mass", "Lost attention 1 − S", true},
      {"perturbation", "perturbation_l1"},
      {"bound", "bound_l1"},
      {"head-error", "head_error_l2", "Output error before W_O (L2)"},
      {"volume", "log_pseudo_determinant"},
  };
  return all;
}

CurveMeasure find_curve_measure(const std::string& choice, const Trace& trace) {
  // Without output weights there is no change of what the layers add: the attention is left.
  const std::string_view wanted =
      choice == "change" && !trace.has_output_weight() ? "later-mass" : std::string_view(choice);
  CurveMeasure found = *std::find_if(measures().begin(), measures().end(),
                                     [&](const CurveMeasure& m) { return wanted == m.choice; });
  if (found.asked) found.name = asked_measure(trace, found.name);
  return found;
}

/// One head's number: the measure's own summary of the replay. A loss is computed query head by
/// query head, because 1 less a mean near 1 would lose digits.
double value_of(const CurveMeasure& curve, const HeadReplay& head) {
  const Measure& measure = require_measure(curve.name);
  if (!curve.lost) return measure_of(measure, head);
  double sum = 0.0;
  long count = 0;
  for (std::size_t step = first_measured_step(head); step < head.steps.size(); ++step) {
    const StepRecord& record = head.steps[step];
    for (int i = 0; i < static_cast<int>(record.query_heads.size()); ++i) {
      sum += std::max(0.0, 1.0 - measure_at(measure, record, i));
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : unknown;
}

/// One policy's panel.
struct Curves {
  std::string policy;
  std::vector<std::vector<double>> heads;  // [L·Hk] of [budgets]
  std::vector<double> mean;                // [budgets] over heads with a number
  int chance = -1;                         // place among the lines of chance; −1: none
  int from = -1;                           // place of the first budget within the limit; −1: none
};

/// Place of the smallest budget from which on a curve keeps within the limit.
int from_where(const std::vector<double>& curve, double limit, bool more_is_better) {
  int from = -1;
  for (int b = static_cast<int>(curve.size()) - 1; b >= 0; --b) {
    const double value = curve[static_cast<std::size_t>(b)];
    const bool within = more_is_better ? value >= limit : value <= limit;
    if (!within) break;  // NaN is not within
    from = b;
  }
  return from;
}

class BudgetCurve final : public Figure {
 public:
  CurveMeasure measure = measures().front();
  std::string queries;  // whose, in words, for a measure of later queries
  double limit = 0.0;
  bool log_scale = false;
  std::vector<HeadIndex> heads;  // in the order of the curves
  std::vector<double> budgets;   // entries, ascending
  bool in_bytes = false;         // some are: entries are those of 16 bits that take as many
  std::vector<Curves> policies;
  std::vector<Curves> lines;  // of chance, beside the policies

  double natural_height(const DrawRequest& request) const override {
    return panels_natural_height(request.style, panels(request), request.width);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const PanelGrid grid = fitting_panels(request);
    if (has_legend(request))
      add_legend(scene, style, {2.0, 2.0}, request.width - 4.0, legend(style));
    const std::vector<Axes> axes = add_panels(scene, style, grid);
    for (std::size_t p = 0; p < axes.size(); ++p) draw_panel(scene, style, axes[p], policies[p]);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "layer", "head", "budget", measure.choice});
    for (const std::vector<Curves>* all : {&policies, &lines}) {
      for (const Curves& one : *all) {
        for (std::size_t h = 0; h < one.heads.size(); ++h) {
          for (std::size_t b = 0; b < budgets.size(); ++b) {
            csv.row({one.policy, heads[h].layer, heads[h].head, std::lround(budgets[b]),
                     one.heads[h][b]});
          }
        }
      }
    }
  }

  std::string value_text(const Target& target) const override {
    const auto found = std::find_if(heads.begin(), heads.end(), [&](const HeadIndex& one) {
      return one.layer == target.layer && one.head == target.head;
    });
    if (found == heads.end()) return {};
    const auto at = static_cast<std::size_t>(found - heads.begin());
    std::string text;
    for (const Curves& one : policies) {
      if (at >= one.heads.size()) return {};
      const int from = from_where(one.heads[at], limit, measure.more_is_better());
      text += fmt::format(
          "{}{}{}", text.empty() ? "" : "; ", policies.size() > 1 ? one.policy + ": " : "",
          from < 0
              ? "within the limit at none of these budgets"
              : fmt::format("within the limit from N = {} on",
                            format_count(std::lround(budgets[static_cast<std::size_t>(from)]))));
    }
    return text;
  }

  std::string caption() const override {
    std::string text = fmt::format(
        "{} by budget, {}: thin, each head; bold, {}. Dashed: the limit {}; ", measure.text(),
        measure.asked ? queries + ", each with the entries in the cache when it comes (open loop)"
                      : "mean over the steps from the first eviction on",
        bold_text(), number_text(limit));
    for (std::size_t p = 0; p < policies.size(); ++p) {
      const Curves& one = policies[p];
      text += fmt::format(
          "{}{}, the {} is within the limit {}", p > 0 ? "; " : "", one.policy,
          measure.whole != nullptr ? "bold line" : "mean",
          one.from < 0
              ? "at none of these budgets"
              : "from N = " +
                    format_count(std::lround(budgets[static_cast<std::size_t>(one.from)])) + " on");
    }
    if (any(&Curves::chance))
      text +=
          ". Grey, dashed: the bold line of random with what the policy protects, acting when it "
          "does";
    return text + (policies.empty() ? "." : ". Budgets between those drawn were not tested.") +
           " The limit is a choice: nobody has measured at which change an answer goes wrong. Only "
           "runs of the model, or a promise of kvloupe advise, show that a budget is enough.";
  }

 private:
  /// "at most 0.1": what the limit asks for.
  std::string limit_text() const {
    return (measure.more_is_better() ? "at least\u00A0" : "at most\u00A0") + number_text(limit);
  }

  /// Whether a policy has such a place.
  bool any(int Curves::*place) const {
    return std::any_of(policies.begin(), policies.end(),
                       [&](const Curves& one) { return one.*place >= 0; });
  }

  std::string bold_text() const {
    if (measure.whole == nullptr) return "the mean over heads";
    return std::string(measure.whole) == "residual_change" ? "all heads of all layers together"
                                                           : "the worst layer";
  }

  static bool has_legend(const DrawRequest& request) {
    return request.legend && request.width > 150.0;
  }

  std::vector<LegendEntry> legend(const Style& style) const {
    const SeriesLook look = series_look(style, 0);
    std::vector<LegendEntry> entries{
        {.label = measure.whole != nullptr ? bold_text() : "mean over heads",
         .fill = look.colour,
         .line = Stroke{look.colour, kBold}},
        {.label = "a head", .line = Stroke{mix_thin(style), thin_width()}},
        {.label = "limit " + number_text(limit),
         .line = Stroke{style.colours.faint, 0.6, {2.0, 1.5}, Cap::butt}}};
    if (any(&Curves::chance)) {
      const SeriesLook chance = chance_look(style);
      entries.push_back({.label = kRandomLine,
                         .line = Stroke{chance.colour, chance.width, chance.dash, Cap::butt}});
    }
    if (any(&Curves::from))
      entries.push_back({fmt::format("from here on {}, of the budgets tested", limit_text()),
                         MarkerShape::diamond, std::nullopt, Stroke{style.colours.ink, 0.8}});
    return entries;
  }

  static constexpr double kBold = 1.8;

  /// Width of a head's line, points.
  double thin_width() const {
    return !policies.empty() && policies.front().heads.size() > 64 ? 0.35 : 0.6;
  }

  static Colour mix_thin(const Style& style) {
    const Colour a = style.colours.paper;
    const Colour b = style.colours.retained;
    const auto part = [](std::uint8_t x, std::uint8_t y) {
      return static_cast<std::uint8_t>(x + (y - x) * 0.4);
    };
    return {part(a.red, b.red), part(a.green, b.green), part(a.blue, b.blue)};
  }

  /// What a panel's title says beside the policy.
  enum class Beside { limit, budget, nothing };

  /// With the longest titles of which none is cut at this size; the caption says the whole.
  PanelGrid fitting_panels(const DrawRequest& request) const {
    const auto cuts = [&](const PanelGrid& grid) {
      Scene scratch = make_scene(request.style, request.width, request.height);
      add_panels(scratch, request.style, grid);
      return std::count_if(scratch.items.begin(), scratch.items.end(), [](const auto& item) {
        const Text* text = std::get_if<Text>(&item);
        return text != nullptr && text->text.find("…") != std::string::npos;
      });
    };
    const PanelGrid named = panels(request, Beside::nothing);
    PanelGrid bare = named;
    for (Panel& panel : bare.panels) panel.title.clear();
    for (const Beside beside : {Beside::limit, Beside::budget}) {
      PanelGrid grid = panels(request, beside);
      if (cuts(grid) <= cuts(bare)) return grid;
    }
    return named;
  }

  PanelGrid panels(const DrawRequest& request, Beside beside = Beside::limit) const {
    PanelGrid grid{.least_width = 76.0, .aspect = 1.15, .beside = 6.0};
    if (has_legend(request)) {
      Scene scratch = make_scene(request.style, request.width, 100.0);
      grid.top += add_legend(scratch, request.style, {2.0, 2.0}, request.width - 4.0,
                             legend(request.style)) +
                  2.0;
    }
    ValueRange x_range, y_range;
    x_range.add(budgets);
    double most = std::numeric_limits<double>::infinity();
    const auto add = [&](const std::vector<double>& curve) {
      for (const double value : curve) {
        if (!log_scale || value > 0.0) y_range.add(std::min(value, most));
      }
    };
    for (const Curves& one : policies) {
      for (const auto& head : one.heads) add(head);
      if (measure.whole != nullptr) add(one.mean);  // a mean lies among what it is the mean of
    }
    // Chance may leave the picture: it does not press the policies to the foot.
    if (y_range.high > 0.0) most = 2.0 * y_range.high;
    for (const Curves& one : lines) add(one.mean);
    const Axis x = x_axis(in_bytes ? "Budget N (entries of 16 bits)" : "Budget N (entries)",
                          x_range.padded_log(0.04), AxisScale::log);
    if (!log_scale) y_range.add(limit);
    ValueRange shown = log_scale ? y_range.padded_log() : y_range.padded();
    if (measure.info().share) shown = within(shown, kShare);
    const Axis y = y_axis(measure.text(), shown, log_scale ? AxisScale::log : AxisScale::linear);
    for (const Curves& one : policies) {
      std::string title = policies.size() > 1 ? one.policy : "";
      if (has_legend(request) && one.from >= 0 && beside != Beside::nothing) {
        title +=
            fmt::format("{}{}from\u00A0{}\u00A0on", title.empty() ? "" : ", ",
                        beside == Beside::limit ? limit_text() + " " : "",
                        format_count(std::lround(budgets[static_cast<std::size_t>(one.from)])));
      }
      grid.panels.push_back({std::move(title), x, y});
    }
    return grid;
  }

  Target place_of(std::size_t head) const {
    const HeadIndex& found = heads[head];
    return {.layer = found.layer, .head = found.head};
  }

  std::vector<Point> points(const std::vector<double>& values) const {
    std::vector<Point> line;
    for (std::size_t b = 0; b < budgets.size(); ++b) line.push_back({budgets[b], values[b]});
    return line;
  }

  void draw_panel(Scene& scene, const Style& style, const Axes& axes, const Curves& one) const {
    SeriesLook thin = series_look(style, 0);
    thin.colour = mix_thin(style);
    thin.width = thin_width();
    for (std::size_t h = 0; h < one.heads.size(); ++h)
      add_line(scene, axes, points(one.heads[h]), thin, place_of(h));
    // Its name is in the legend: many lines run through its place.
    add_level(scene, style, axes, limit, "");
    if (one.chance >= 0)
      add_line(scene, axes, points(lines[static_cast<std::size_t>(one.chance)].mean),
               chance_look(style));
    SeriesLook bold = series_look(style, 0);
    bold.width = kBold;
    add_marked_line(scene, style, axes, points(one.mean), bold, 4.0);
    if (one.from < 0) return;
    const auto at = static_cast<std::size_t>(one.from);
    // Nothing lost at all has no place on a logarithmic axis: its mark stands at the foot.
    const bool at_foot = log_scale && !(one.mean[at] > 0.0);
    const Point mark = axes.to_page(budgets[at], at_foot ? axes.y.first : one.mean[at]);
    scene.add(make_line(mark, {mark.x, axes.plot.bottom()}, style.colours.ink, 0.6, {1.0, 1.2}));
    scene.add(Markers{
        MarkerShape::diamond, 6.5, style.colours.paper, Stroke{style.colours.ink, 0.9}, {mark}});
  }
};

/// Every head's number at every budget, and their mean or the number of the whole model; `answers`
/// of later queries where the measure asks them.
Curves curves_of(const std::string& policy, const Replays& replays,
                 const std::vector<AskedReplay>& answers, std::size_t first, std::size_t budgets,
                 const CurveMeasure& measure, double limit) {
  Curves curves;
  curves.policy = policy;
  curves.heads.resize(replays[first]->heads.size());
  const bool of_layer = std::string_view(measure.choice) == "layer-error";
  for (std::size_t b = first; b < first + budgets; ++b) {
    std::vector<double> own;
    for (std::size_t h = 0; h < curves.heads.size(); ++h) {
      const HeadReplay& head = replays[b]->heads[h];
      own.push_back(!measure.asked ? value_of(measure, head)
                    : measure.lost ? 1.0 - answers[b].heads[h].kept_attention
                    : of_layer     ? answers[b].layer_errors[static_cast<std::size_t>(head.layer)]
                                   : answers[b].parts[h]);
      curves.heads[h].push_back(own.back());
    }
    if (!measure.asked) {
      curves.mean.push_back(mean_of(own));
    } else if (measure.lost) {
      curves.mean.push_back(std::accumulate(own.begin(), own.end(), 0.0) /
                            static_cast<double>(own.size()));
    } else {
      curves.mean.push_back(of_layer ? answers[b].worst_layer_error : answers[b].residual_change);
    }
  }
  curves.from = from_where(curves.mean, limit, measure.more_is_better());
  return curves;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<BudgetCurve>();
  figure->measure = find_curve_measure(input.choice("measure"), *input.trace);
  if (figure->measure.asked) figure->queries = asked_text(*input.trace);
  figure->limit = chosen_number(input, "limit");
  figure->log_scale = input.choice("scale") == "log";
  const std::vector<PolicySpec> policies = chosen_policies(input);
  const std::vector<Budget> budgets = chosen_budgets(input);
  for (const Budget& budget : budgets)
    figure->budgets.push_back(budget_entries(budget, *input.trace));
  figure->in_bytes = std::any_of(budgets.begin(), budgets.end(),
                                 [](const Budget& budget) { return budget.in_bytes(); });
  const std::vector<PolicySpec> lines =
      input.choice("random") == "shown" ? random_lines(policies) : std::vector<PolicySpec>();
  std::vector<PolicySpec> all = policies;
  all.insert(all.end(), lines.begin(), lines.end());
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : all) {
    for (const Budget& budget : budgets) {
      WantedReplay one{policy, budget};
      if (!figure->measure.asked) {
        one.measures = {figure->measure.name};
        one.summary = true;
      }
      wanted.push_back(std::move(one));
    }
  }
  const bool asked = figure->measure.asked;
  const auto replays = replays_of(input, wanted, progress, asked ? kReplaySteps : 0);
  for (const HeadReplay& head : replays.front()->heads)
    figure->heads.push_back({head.layer, head.head});
  const std::vector<AskedReplay> answers =
      asked ? asked_of(input, replays, progress) : std::vector<AskedReplay>();
  for (std::size_t p = 0; p < all.size(); ++p) {
    const std::string name = all[p].text();
    const std::size_t first = p * budgets.size();
    Curves curves =
        curves_of(name, replays, answers, first, budgets.size(), figure->measure, figure->limit);
    const auto line = std::find(lines.begin(), lines.end(), random_line(all[p]));
    if (p < policies.size() && !keeps_everything(all[p]) && line != lines.end())
      curves.chance = static_cast<int>(line - lines.begin());
    (p < policies.size() ? figure->policies : figure->lines).push_back(std::move(curves));
  }
  const bool any =
      std::any_of(figure->policies.begin(), figure->policies.end(), [](const Curves& one) {
        return std::any_of(one.mean.begin(), one.mean.end(),
                           [](double value) { return std::isfinite(value); });
      });
  if (!any) {
    throw WorkError(fmt::format(
        "figure budget-curve: this trace does not give measure={}{}", figure->measure.choice,
        input.trace->has_output_weight() ? "" : ": it has no output weights"));
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "budget-curve", "Measure by budget",
      "A measure at several budgets, mean over the steps from the first eviction on: each head, "
      "their mean, and the smallest budget from which on the mean stays within a limit",
      Topic::comparisons, compute, kTwoColumns, 2.2);
  info.needs.comparison = true;
  ChoiceInfo measure = word_choice("measure", "Measure", "The measure to draw", {});
  for (const CurveMeasure& one : measures()) measure.values.emplace_back(one.choice);
  info.choices = {
      measure,
      policies_choice(published_list({"A", "B", "h2o", "tova"})),
      budgets_choice("2.5%,5%,10%,20%,40%,80%"),
      number_choice("limit", "Limit",
                    "Largest allowed value of the measure (for a volume: the smallest). "
                    "0.1 is a round number: whether an answer stays right, only runs "
                    "of the model show",
                    "0.1", -1e9, 1e9),
      word_choice("scale", "Scale", "Scale of the measure's axis", {"linear", "log"}),
      random_choice("line")};
  return info;
}

}  // namespace kvloupe::figure::budget_curve_figure
