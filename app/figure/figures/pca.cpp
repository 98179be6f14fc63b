// Keys of one head in their two principal components: the kept and the evicted ones.

#include <array>

#include "analysis/math/pca.h"
#include "app/figure/figures/figures.h"
#include "app/figure/token_state.h"

namespace kvloupe::figure::pca_figure {

namespace {

constexpr long kMostHaloes = 8000;
// With more keys, those evicted are small pale dots: their density shows where keys were lost.
constexpr long kMany = 600;
constexpr double kPale = 0.45;

struct Panel {
  std::string title;
  std::vector<TokenState> states;  // [T]
  Point mean;                      // of the keys in the cache before the step's eviction
};

class Pca final : public Figure {
 public:
  Matrix points;  // [T,2]
  Eigen::Vector2d explained{0, 0};
  std::vector<Panel> panels;

  bool any(TokenState state) const {
    return std::any_of(panels.begin(), panels.end(), [&](const Panel& p) {
      return std::find(p.states.begin(), p.states.end(), state) != p.states.end();
    });
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const auto [x_all, y_all] = ranges();
    Axis x{AxisMeaning::value, AxisScale::linear, x_all.first, x_all.second, name(0)};
    Axis y{AxisMeaning::value, AxisScale::linear, y_all.second, y_all.first, name(1)};
    if (request.x_range) x.show(*request.x_range);
    if (request.y_range) y.show(*request.y_range);

    double top = 2.0;
    if (request.legend) {
      top += add_legend(scene, style, {2.0, top}, request.width - 4.0, legend(style)) + 3.0;
    }
    const int count = static_cast<int>(panels.size());
    const double title = count > 1 ? style.text * 1.6 : 2.0;
    const double plot_top = top + title;
    AxisLook y_look = axis_look(style, y, request.height - plot_top - 25.0, false);
    const double left = 2.0 + left_margin(style, y, y_look);
    constexpr double gap = 14.0;
    const double width = std::max(10.0, (request.width - left - 6.0 - gap * (count - 1)) / count);
    const AxisLook x_look = axis_look(style, x, width, true);
    const double height =
        std::max(10.0, request.height - plot_top - bottom_margin(style, x, x_look) - 2.0);
    y_look = axis_look(style, y, height, false);
    for (int p = 0; p < count; ++p) {
      const Panel& panel = panels[static_cast<std::size_t>(p)];
      const Axes axes{{left + p * (width + gap), plot_top, width, height}, x, y};
      AxisLook look = y_look;
      look.labels = p == 0;
      add_axes(scene, style, axes, x_look, look);
      add_points(scene, style, axes, panel);
      if (count > 1) {
        add_panel_letter(scene, style, p, {axes.plot.x, top});
        scene.add(make_text(style, fit_words(style, panel.title, style.small, width - 12.0),
                            {axes.plot.x + 11.0, top + style.fonts->cap_height() * style.text},
                            style.small));
      }
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "token", "pc1", "pc2", "state"});
    for (const Panel& panel : panels) {
      for (std::size_t t = 0; t < panel.states.size(); ++t) {
        if (is_out_of_play(panel.states[t])) continue;
        const auto row = static_cast<Eigen::Index>(t);
        csv.row({panel.title, t, points(row, 0), points(row, 1), state_name(panel.states[t])});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < 0 || target.token >= points.rows()) return {};
    std::string text;
    for (const Panel& panel : panels) {
      if (!text.empty()) text += ", ";
      text += state_name(panel.states[static_cast<std::size_t>(target.token)]);
    }
    return text;
  }

 private:
  std::string name(int axis) const {
    return fmt::format("PC {} ({} %)", axis + 1, format_number(100.0 * explained[axis], 2));
  }

  static long shown_keys(const Panel& panel) {
    return std::count_if(panel.states.begin(), panel.states.end(),
                         [](TokenState s) { return !is_out_of_play(s); });
  }
  bool are_many() const {
    return std::any_of(panels.begin(), panels.end(),
                       [](const Panel& panel) { return shown_keys(panel) > kMany; });
  }

  std::vector<LegendEntry> legend(const Style& style) const {
    const Palette& c = style.colours;
    std::vector<LegendEntry> entries;
    entries.push_back({"retained", MarkerShape::circle, c.retained});
    if (any(TokenState::protected_))
      entries.push_back({"protected", MarkerShape::square, c.protected_});
    if (any(TokenState::synthetic))
      entries.push_back({"synthetic", MarkerShape::triangle, c.pivot});
    if (any(TokenState::merged)) entries.push_back({"merged", MarkerShape::diamond, c.merged});
    if (any(TokenState::evicted) && are_many()) {
      entries.push_back({"evicted", MarkerShape::circle, c.evicted.with_alpha(kPale)});
    } else if (any(TokenState::evicted)) {
      entries.push_back({"evicted", MarkerShape::circle, std::nullopt, Stroke{c.evicted, 0.7}});
    }
    entries.push_back({"mean key", MarkerShape::star, c.ink});
    return entries;
  }

  /// The range of all points that any panel shows, with a margin.
  std::pair<std::pair<double, double>, std::pair<double, double>> ranges() const {
    std::array<double, 4> r{
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (Eigen::Index t = 0; t < points.rows(); ++t) {
      const bool shown = std::any_of(panels.begin(), panels.end(), [&](const Panel& p) {
        return !is_out_of_play(p.states[static_cast<std::size_t>(t)]);
      });
      if (!shown) continue;
      for (int a = 0; a < 2; ++a) {
        const auto v = static_cast<double>(points(t, a));
        r[static_cast<std::size_t>(2 * a)] = std::min(r[static_cast<std::size_t>(2 * a)], v);
        r[static_cast<std::size_t>(2 * a + 1)] =
            std::max(r[static_cast<std::size_t>(2 * a + 1)], v);
      }
    }
    const auto padded = [](double low, double high) {
      if (!(low <= high)) return std::pair{-1.0, 1.0};
      const double pad = high > low ? 0.05 * (high - low) : 1.0;
      return std::pair{low - pad, high + pad};
    };
    return {padded(r[0], r[1]), padded(r[2], r[3])};
  }

  void add_points(Scene& scene, const Style& style, const Axes& axes, const Panel& panel) const {
    const Palette& c = style.colours;
    const long shown = shown_keys(panel);
    const double size = shown <= 300 ? 4.0 : shown <= kMany ? 3.0 : shown <= 3000 ? 2.2 : 1.8;
    const Stroke thin{c.evicted, size > 2.5 ? 0.6 : 0.45};
    const bool many = are_many();
    // In a dense cloud the halos of the upper points would cover all of the lower ones.
    std::optional<Stroke> halo;
    if (shown <= kMostHaloes) halo = Stroke{c.paper, size > 2.5 ? 0.35 : 0.15};
    Markers batches[] = {
        {MarkerShape::circle,
         many ? 0.8 * size : size,
         many ? std::optional(c.evicted.with_alpha(kPale)) : std::nullopt,
         many ? std::nullopt : std::optional(thin),
         {}},
        {MarkerShape::diamond, size, c.merged, halo, {}},
        {MarkerShape::circle, size, c.retained, halo, {}},
        {MarkerShape::square, size, c.protected_, halo, {}},
        {MarkerShape::triangle, size, c.pivot, halo, {}},
    };
    PickPoints pick;
    for (std::size_t t = 0; t < panel.states.size(); ++t) {
      const auto row = static_cast<Eigen::Index>(t);
      const Point at =
          axes.to_page(static_cast<double>(points(row, 0)), static_cast<double>(points(row, 1)));
      if (is_out_of_play(panel.states[t]) || !axes.plot.contains(at)) continue;
      const int batch = panel.states[t] == TokenState::evicted     ? 0
                        : panel.states[t] == TokenState::merged    ? 1
                        : panel.states[t] == TokenState::retained  ? 2
                        : panel.states[t] == TokenState::synthetic ? 4
                                                                   : 3;
      batches[batch].points.push_back(at);
      pick.points.push_back(at);
      pick.tokens.push_back(static_cast<std::int32_t>(t));
    }
    for (Markers& batch : batches) {
      if (!batch.points.empty()) scene.add(std::move(batch));
    }
    const Point star = axes.to_page(panel.mean.x, panel.mean.y);
    if (axes.plot.contains(star)) {
      scene.add(Markers{MarkerShape::star, 8.0, c.ink, Stroke{c.paper, 0.7}, {star}});
    }
    scene.point_sets.push_back(std::move(pick));
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  auto figure = std::make_unique<Pca>();
  const bool before = input.choice("rope") == "before";
  Matrix keys = input.trace->key(s.layer, s.head);
  if (before) keys = undo_rope(view(keys), input.trace->layer_model(s.layer));
  progress.check();
  const PrincipalComponents components = fit_principal_components(view(keys));
  figure->points = components.project(view(keys));
  figure->explained = components.explained;
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (!replay) continue;
    progress.check();
    const HeadReplay* head = &head_of(*replay, s.layer, s.head);
    Panel panel{replay->policy, token_states(*replay, *head, s.step), {}};
    const std::vector<std::int32_t> present = replay->tokens_at(*head, s.step);
    for (const std::int32_t t : present) {
      panel.mean.x +=
          static_cast<double>(figure->points(t, 0)) / static_cast<double>(present.size());
      panel.mean.y +=
          static_cast<double>(figure->points(t, 1)) / static_cast<double>(present.size());
    }
    figure->panels.push_back(std::move(panel));
  }
  std::string& text = figure->caption_text = fmt::format(
      "Keys of layer {}, head {}, {}, in their two principal components, after step {} with N = {}",
      s.layer, s.head, before ? "before RoPE" : "after RoPE", s.step,
      format_count((input.policy_b ? input.policy_b : input.policy_a)->budget));
  for (const Panel& panel : figure->panels) {
    text +=
        figure->panels.size() > 1
            ? fmt::format("{} {}, {}", &panel == &figure->panels.front() ? ":" : ";",
                          static_cast<char>('a' + (&panel - figure->panels.data())), panel.title)
            : ", " + panel.title;
  }
  if (figure->any(TokenState::beyond_window))
    text += "; keys that left the model's window are left out";
  text += ".";
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "pca", "Keys in two components",
      "All keys of a head in two principal components, retained and evicted (KeyDiff, figures 4 "
      "and 7–9). The basis is fitted once to all keys; the star is the mean of the keys in the "
      "cache at the step",
      Topic::keys, compute, kColumn, 1.25);
  info.zoom = Zoom::both;
  info.needs = {.head = true, .step = true, .policy = true, .scores = true, .beside = true};
  info.choices = {word_choice(
      "rope", "RoPE", "Keys after the rotary embedding, as the cache holds them, or before it",
      {"after", "before"})};
  return info;
}

}  // namespace kvloupe::figure::pca_figure
