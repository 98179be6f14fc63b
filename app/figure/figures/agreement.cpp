// How far policies agree on what to keep: Jaccard indices of their retained sets.

#include "analysis/math/numeric/statistics.h"
#include "analysis/policy/published.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::agreement_figure {

namespace {

/// One head's matrix, and how much its policies disagree.
struct HeadAgreement {
  int layer = 0;
  int head = 0;
  std::vector<double> jaccard;  // [P,P]
  double disagreement = 0.0;    // 1 − the mean over pairs
};

class Agreement final : public Figure {
 public:
  bool one_head = false;
  Selection selection;
  std::vector<std::string> policies;
  std::vector<float> matrix;         // [P,P] shown: a head's, or the mean over heads
  std::vector<HeadAgreement> heads;  // the one that disagrees most first

  double natural_height(const DrawRequest& request) const override {
    const PanelGrid grid = matrix_grid(request, 0.0);
    return std::clamp(panels_natural_height(request.style, grid, request.width),
                      is_narrow(request) ? kLeastWithHeads + 30.0 : 120.0, 420.0);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const int count = static_cast<int>(policies.size());
    const ColourScale colours = scale(request);
    const PanelGrid grid = matrix_grid(request, request.height);
    const Axes axes = add_panels(scene, style, grid).front();
    add_cells(scene, style, axes, matrix, count, count, colours,
              [](double value) { return fmt::format("{:.2f}", value); });
    add_colour_bar(scene, style, axes.plot, colours);
    add_title(
        scene, style, 0, {axes.plot.x, 2.0},
        style.fonts->fit(what(), Font::regular, style.small, axes.plot.width - style.text * 1.4));
    if (is_tiny(request)) return scene;
    const double left = style.text + 8.0;
    const double top = style.text * 1.7 + 2.0;
    if (is_narrow(request)) {  // the heads under the matrix, else beside it
      const double under = request.height - grid.below;
      add_title(scene, style, 1, {left, under}, "All heads");
      draw_heads(scene, style,
                 {left, under + top, request.width - left - 8.0, grid.below - top - 26.0});
    } else {
      const double from = request.width - right_part * request.width + left;
      add_title(scene, style, 1, {from, 2.0}, "All heads");
      draw_heads(scene, style,
                 {from, top, request.width - from - 8.0, request.height - top - 28.0});
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"layer", "head", "policy", "other", "jaccard"});
    for (const HeadAgreement& one : heads) {
      for (std::size_t i = 0; i < policies.size(); ++i) {
        for (std::size_t j = 0; j < policies.size(); ++j) {
          csv.row({one.layer, one.head, policies[i], policies[j],
                   one.jaccard[i * policies.size() + j]});
        }
      }
    }
  }

 private:
  std::string what() const {
    return one_head ? fmt::format("Layer {}, head {}", selection.layer, selection.head)
                    : fmt::format("Mean over {} heads", heads.size());
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts, .label = "Jaccard index"};
    choose_limits(colours, request.limits, kShare);
    return colours;
  }

  static constexpr double right_part = 0.36;        // of a wide figure
  static constexpr double kLeastWithHeads = 260.0;  // points: height of a narrow one

  static bool is_narrow(const DrawRequest& request) { return request.width < 330.0; }
  /// No room for the heads: the matrix alone.
  static bool is_tiny(const DrawRequest& request) {
    return request.width < 150.0 || request.height < (is_narrow(request) ? kLeastWithHeads : 60.0);
  }

  /// The matrix alone in its part of the figure. `height` 0: as high as suits.
  PanelGrid matrix_grid(const DrawRequest& request, double height) const {
    const Style& style = request.style;
    PanelGrid grid{.letters = false};
    Panel map;
    map.x = map.y = name_axis(policies);
    for (std::size_t i = 0; i < policies.size(); ++i) {  // long names stand only once
      map.x.names[i] = std::to_string(i + 1);
      map.y.names[i] = fmt::format("{} {}", i + 1, policies[i]);
    }
    map.is_map = true;
    grid.panels = {map};
    grid.aspect = 1.5;
    grid.top = style.text * 1.3;
    grid.right = colour_bar_width(style, scale(request), 100.0);
    if (height > 0.0 && is_tiny(request))
      return short_names(style, std::move(grid), 0.27 * request.width);
    if (is_narrow(request)) {
      grid.below = height > 0.0 ? 0.42 * height : 130.0;
    } else {
      grid.right += right_part * request.width;
    }
    return grid;
  }

  static PanelGrid short_names(const Style& style, PanelGrid grid, double most) {
    for (std::string& name : grid.panels.front().y.names)
      name = fit_words(style, name, style.small, most);
    return grid;
  }

  static void add_title(Scene& scene, const Style& style, int panel, Point corner,
                        const std::string& title) {
    add_panel_letter(scene, style, panel, corner);
    scene.add(
        make_text(style, title,
                  {corner.x + style.text * 1.4, corner.y + style.fonts->cap_height() * style.text},
                  style.small));
  }

  /// Each head a dot, the one that disagrees most at the top, with names where there is room.
  void draw_heads(Scene& scene, const Style& style, const Rect& plot) const {
    ValueRange range;
    for (const HeadAgreement& one : heads) range.add(one.disagreement);
    const Axis x =
        x_axis("Disagreement, 1 − mean Jaccard index", within(range.from_zero(0.12), kShare));
    const Axis y = y_axis("Heads, sorted", {0.0, static_cast<double>(heads.size())});
    AxisLook y_look;
    y_look.line = false;
    const Axes axes{plot, x, y};
    add_axes(scene, style, axes, axis_look(style, x, plot.width, true), y_look);
    SeriesLook look = series_look(style, 0);
    const double size = dot_size(plot);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const HeadAgreement& one = heads[i];
      const Point at = axes.to_page(
          one.disagreement, static_cast<double>(heads.size()) - static_cast<double>(i) - 0.5);
      const bool selected = one.layer == selection.layer && one.head == selection.head;
      Path stem = make_line({plot.x, at.y}, at, style.colours.grid, std::min(0.8, size / 2));
      scene.add(std::move(stem));
      SeriesLook mark = look;
      mark.filled = !(one_head && selected);
      scene.add(series_marks(style, mark, size, {at}));
      Target target{.layer = one.layer, .head = one.head};
      const double row = plot.height / static_cast<double>(heads.size());
      scene.regions.push_back({{plot.x, at.y - row / 2, plot.width, row}, target});
    }
    label_heads(scene, style, axes);
  }

  double dot_size(const Rect& plot) const {
    return std::clamp(plot.height / static_cast<double>(heads.size()), 1.6, 4.0);
  }

  /// Names of the heads that disagree most and least, where rows or the plot leave room: right of
  /// the dots of all rows that a name is as high as.
  void label_heads(Scene& scene, const Style& style, const Axes& axes) const {
    const double row = axes.plot.height / static_cast<double>(heads.size());
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(style.small * 1.15 / row)));
    const double half = style.fonts->cap_height() * style.small / 2;
    const double size = dot_size(axes.plot);
    const auto reach = static_cast<std::size_t>(std::ceil((half + size / 2) / row));
    for (std::size_t i = 0; i < heads.size(); i += every) {
      const HeadAgreement& one = heads[i];
      const Point at = axes.to_page(
          one.disagreement, static_cast<double>(heads.size()) - static_cast<double>(i) - 0.5);
      // Rows are sorted: above are the dots farther right, below those farther left.
      const auto x_of = [&](std::size_t place) {
        return axes.to_page(heads[place].disagreement, axes.y.first).x;
      };
      const double right = x_of(i > reach ? i - reach : 0) + size / 2 + 2.0;
      const double left = x_of(std::min(i + reach, heads.size() - 1)) - size / 2 - 2.0;
      Text name = make_text(style, fmt::format("{}.{}", one.layer, one.head), {right, at.y + half},
                            style.small);
      if (right + name.width > scene.width - 1.0) {
        name.anchor.x = left;
        name.align = Align::right;
      }
      // Not on the axis below.
      if (name.anchor.y + 1.0 > axes.plot.bottom() && row < style.small) continue;
      name.colour = style.colours.faint;
      scene.add(std::move(name));
    }
  }
};

HeadAgreement agreement_of(const std::vector<std::shared_ptr<const Replay>>& replays, int layer,
                           int head, int step) {
  std::vector<std::vector<std::int32_t>> kept;
  for (const auto& replay : replays)
    kept.push_back(replay->retained_at(head_of(*replay, layer, head), step));
  HeadAgreement result{layer, head, {}, 0.0};
  const std::size_t count = kept.size();
  result.jaccard.assign(count * count, 1.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      const double index = set_overlap(kept[i], kept[j]).jaccard();
      result.jaccard[i * count + j] = result.jaccard[j * count + i] = index;
      sum += 1.0 - index;
    }
  }
  if (count > 1) result.disagreement = sum / (0.5 * static_cast<double>(count * (count - 1)));
  return result;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Agreement>();
  figure->one_head = input.choice("of") == "head";
  figure->selection = input.selection;
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : chosen_policies(input)) {
    wanted.push_back({policy});
    figure->policies.push_back(policy.text());
  }
  const auto replays = replays_of(input, wanted, progress);
  const std::size_t cells = wanted.size() * wanted.size();
  std::vector<double> mean(cells, 0.0);
  for (const int l : input.trace->storing_layers()) {
    for (int h = 0; h < input.trace->layer_model(l).num_kv_heads; ++h) {
      progress.check();
      HeadAgreement one = agreement_of(replays, l, h, input.selection.step);
      const bool shown =
          !figure->one_head || (l == input.selection.layer && h == input.selection.head);
      for (std::size_t i = 0; shown && i < cells; ++i) mean[i] += one.jaccard[i];
      figure->heads.push_back(std::move(one));
    }
  }
  const double shown = figure->one_head ? 1.0 : static_cast<double>(figure->heads.size());
  for (const double sum : mean) figure->matrix.push_back(static_cast<float>(sum / shown));
  std::stable_sort(figure->heads.begin(), figure->heads.end(),
                   [](const HeadAgreement& a, const HeadAgreement& b) {
                     return a.disagreement > b.disagreement;
                   });
  std::string names;
  for (const std::string& policy : figure->policies)
    names += fmt::format("{}{}, {}", names.empty() ? "" : "; ",
                         &policy - figure->policies.data() + 1, policy);
  figure->caption_text = fmt::format(
      "Jaccard index of the retained sets of every two policies, a, {}, after step {} with N = {} "
      "({}); b, disagreement (1 − the mean over pairs) of every head, sorted.",
      figure->one_head
          ? fmt::format("in layer {}, head {}", input.selection.layer, input.selection.head)
          : fmt::format("mean over {} heads", figure->heads.size()),
      input.selection.step, format_count(budget_entries(input.budget, *input.trace)), names);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "agreement", "Agreement of policies",
      "Jaccard index |A ∩ B| / |A ∪ B| of the sets that two policies retain after the step, for "
      "all pairs of policies, and the heads sorted by disagreement",
      Topic::comparisons, compute, kTwoColumns, 2.4);
  info.limits = true;
  info.needs = {.head = true, .step = true, .comparison = true};
  info.choices = {
      policies_choice(published_list({"A", "B", "keydiff", "h2o", "tova", "snapkv"})),
      word_choice("of", "Of", "The mean over all heads, or the selected head", {"mean", "head"})};
  return info;
}

}  // namespace kvloupe::figure::agreement_figure
