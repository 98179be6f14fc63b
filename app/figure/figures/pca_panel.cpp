// Keys of one head in two components, a panel per policy, and the entries that all of them keep, in
// one panel.

#include "analysis/math/pca.h"
#include "analysis/policy/published.h"
#include "app/figure/figures/figures.h"
#include "app/figure/token_state.h"

namespace kvloupe::figure::pca_panel_figure {

namespace {

constexpr double kPale = 0.5;           // of the evicted: their density shows where keys were lost
constexpr double kLongestName = 160.0;  // points: of a policy in the legend

class PcaPanel final : public PanelFigure {
 public:
  Matrix points;  // [T,2]
  Eigen::Vector2d explained{0, 0};
  Point mean;     // of the keys seen by the step, those beyond the model's window left out
  int first = 0;  // the first of them
  int seen = 0;   // their end
  std::vector<std::string> policies;
  std::vector<std::vector<TokenState>> states;  // [policies] of [T]

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    for (std::size_t p = 0; p < policies.size(); ++p) add_states(scene, style, axes[p], p);
    add_all(scene, style, axes.back());
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "token", "pc1", "pc2", "retained"});
    for (std::size_t p = 0; p < policies.size(); ++p) {
      for (int t = first; t < seen; ++t) {
        csv.row({policies[p], t, points(t, 0), points(t, 1), retained(p, t)});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < first || target.token >= seen) return {};
    std::string kept;
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (retained(p, target.token)) kept += (kept.empty() ? "kept by " : ", ") + policies[p];
    }
    return kept.empty() ? "not kept" : kept;
  }

 private:
  bool retained(std::size_t policy, int token) const {
    return is_kept(states[policy][static_cast<std::size_t>(token)]);
  }

  Point data(int token) const {
    return {static_cast<double>(points(token, 0)), static_cast<double>(points(token, 1))};
  }

  PanelGrid grid(const DrawRequest& request) const override {
    ValueRange x, y;
    for (int t = first; t < seen; ++t) {
      x.add(data(t).x);
      y.add(data(t).y);
    }
    PanelGrid grid;
    for (std::size_t p = 0; p <= policies.size(); ++p) {
      Panel panel{.title = p < policies.size() ? policies[p] : "retained by each"};
      const auto name = [&](int axis) {
        return fmt::format("PC {} ({} %)", axis + 1, format_number(100.0 * explained[axis], 2));
      };
      panel.x = x_axis(name(0), x.padded());
      panel.y = y_axis(name(1), y.padded());
      if (request.x_range) panel.x.show(*request.x_range);
      if (request.y_range) panel.y.show(*request.y_range);
      grid.panels.push_back(std::move(panel));
    }
    grid.least_width = 85.0;
    grid.aspect = 1.1;
    return grid;
  }

  Legend legend(const Style& style) const override {
    std::vector<LegendEntry> entries = {{"evicted", MarkerShape::circle, evicted_colour(style)},
                                        {"mean key", MarkerShape::star, style.colours.ink}};
    for (std::size_t p = 0; p < policies.size(); ++p) {
      const SeriesLook look = series_look(style, static_cast<int>(p));
      const std::string name = fit_words(style, policies[p], style.small, kLongestName);
      LegendEntry entry{p == 0 ? "retained by " + name : name, look.shape, std::nullopt,
                        Stroke{look.colour, 0.8}};
      entry.fill = look.filled ? look.colour : style.colours.paper;
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  double mark_size() const {
    const int keys = seen - first;
    return keys <= 300 ? 3.0 : keys <= 1000 ? 2.2 : keys <= 3000 ? 1.7 : 1.4;
  }

  /// Grey, so that each policy has a colour of its own, the same in its panel and in the last.
  static Colour evicted_colour(const Style& style) { return style.colours.faint.with_alpha(kPale); }

  void add_star(Scene& scene, const Style& style, const Axes& axes) const {
    const Point star = axes.to_page(mean.x, mean.y);
    if (!axes.plot.contains(star)) return;
    scene.add(Markers{
        MarkerShape::star, 8.0, style.colours.ink, Stroke{style.colours.paper, 0.7}, {star}});
  }

  void add_states(Scene& scene, const Style& style, const Axes& axes, std::size_t policy) const {
    Markers evicted{MarkerShape::circle, 0.7 * mark_size(), evicted_colour(style)};
    std::vector<Point> kept;
    PickPoints pick;
    for (int t = first; t < seen; ++t) {
      const Point at = axes.to_page(data(t).x, data(t).y);
      if (!axes.plot.contains(at)) continue;
      (retained(policy, t) ? kept : evicted.points).push_back(at);
      pick.points.push_back(at);
      pick.tokens.push_back(t);
    }
    if (!evicted.points.empty()) scene.add(std::move(evicted));
    if (!kept.empty()) {
      Markers marks = series_marks(style, series_look(style, static_cast<int>(policy)), mark_size(),
                                   std::move(kept));
      if (marks.stroke) marks.stroke->width = 0.4;
      scene.add(std::move(marks));
    }
    scene.point_sets.push_back(std::move(pick));
    add_star(scene, style, axes);
  }

  /// Policies that keep the same key stand side by side around it, not one upon the other.
  void add_all(Scene& scene, const Style& style, const Axes& axes) const {
    const auto count = static_cast<double>(policies.size());
    for (std::size_t p = 0; p < policies.size(); ++p) {
      std::vector<Point> marks;
      const double aside = (static_cast<double>(p) - (count - 1.0) / 2.0) * 1.6;
      for (int t = first; t < seen; ++t) {
        if (!retained(p, t)) continue;
        Point at = axes.to_page(data(t).x, data(t).y);
        at.x += aside;
        if (axes.plot.contains(at)) marks.push_back(at);
      }
      if (marks.empty()) continue;
      Markers all = series_marks(style, series_look(style, static_cast<int>(p)), mark_size() * 0.85,
                                 std::move(marks));
      if (all.stroke) all.stroke->width = 0.4;
      scene.add(std::move(all));
    }
    add_star(scene, style, axes);
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  auto figure = std::make_unique<PcaPanel>();
  const bool before = input.choice("rope") == "before";
  const auto replays =
      replays_of(input, for_each_policy(chosen_policies(input), {.layers = {s.layer}}), progress);
  Matrix keys = input.trace->key(s.layer, s.head);
  if (before) keys = undo_rope(view(keys), input.trace->layer_model(s.layer));
  const PrincipalComponents components = fit_principal_components(view(keys));
  figure->points = components.project(view(keys));
  figure->explained = components.explained;
  for (const auto& replay : replays) {
    progress.check();
    figure->policies.push_back(replay->policy);
    figure->states.push_back(token_states(*replay, head_of(*replay, s.layer, s.head), s.step));
  }
  figure->seen = replays.front()->blocks.at(static_cast<std::size_t>(s.step)).end;
  figure->first = replays.front()->first_token(head_of(*replays.front(), s.layer, s.head), s.step);
  std::string& text = figure->caption_text = fmt::format(
      "Keys of layer {}, head {}, {}, in their two principal components, after step {} with N = "
      "{}: "
      "in the policy's colour, the keys it retains; grey, those it evicted; star, the mean key",
      s.layer, s.head, before ? "before RoPE" : "after RoPE", s.step,
      format_count(replays.front()->budget));
  char letter = 'a';
  for (const std::string& policy : figure->policies)
    text += fmt::format("; {}, {}", letter++, policy);
  text += fmt::format("; {}, the keys that each policy retains{}", letter,
                      figure->first > 0 ? "; keys beyond the model's window are left out." : ".");
  if (figure->first == figure->seen) return figure;  // a window of one token
  const Eigen::RowVectorXf middle =
      figure->points.middleRows(figure->first, figure->seen - figure->first).colwise().mean();
  figure->mean = {static_cast<double>(middle[0]), static_cast<double>(middle[1])};
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "pca-panel", "Keys in two components, policy by policy",
      "The keys of a head that each policy retains (in its colour) and evicts (grey), in two "
      "principal components fitted once to all its keys, and the keys that each retains in one "
      "panel (KeyDiff, figures 4 and 7–9)",
      Topic::keys, compute, kTwoColumns, 1.5);
  info.zoom = Zoom::both;
  info.needs = {.head = true, .step = true, .comparison = true};
  info.choices = {
      policies_choice(published_list({"A", "B", "sink", "tova", "h2o", "snapkv", "keydiff"})),
      word_choice("rope", "RoPE",
                  "Keys after the rotary embedding, as the cache holds them, or before it",
                  {"after", "before"})};
  return info;
}

}  // namespace kvloupe::figure::pca_panel_figure
