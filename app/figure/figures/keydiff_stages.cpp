// KeyDiff's three stages at one step: the anchor, the cosine of every key to it, the kept entries.

#include <numeric>

#include "analysis/math/angle.h"
#include "analysis/math/pca.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::keydiff_stages_figure {

namespace {

class KeydiffStages final : public PanelFigure {
 public:
  int budget = 0;
  std::vector<std::int32_t> tokens;  // [n] in the cache before the step's eviction
  std::vector<double> cosines;       // [n] to the anchor
  std::vector<bool> kept;            // [n]
  Matrix plane;                      // [n,2] directions of the keys: along the anchor, and across
  double anchor_length = 0.0;        // ‖μ(K̂)‖
  double across_share = 0.0;         // of what is not along the anchor, in the second coordinate

  bool shares_limits() const override { return true; }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    add_anchor(scene, style, axes[0]);
    add_cosines(scene, style, axes[1]);
    add_kept(scene, style, axes[2]);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"token", "along_anchor", "across", "cosine_to_anchor", "kept"});
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i);
      csv.row({tokens[i], plane(row, 0), plane(row, 1), cosines[i], kept[i]});
    }
  }

  std::string value_text(const Target& target) const override {
    const auto found = std::lower_bound(tokens.begin(), tokens.end(), target.token);
    if (found == tokens.end() || *found != target.token) return {};
    const auto i = static_cast<std::size_t>(found - tokens.begin());
    return "cos " + format_number(cosines[i]) + (kept[i] ? ", kept" : ", evicted");
  }

 private:
  Legend legend(const Style& style) const override {
    const Palette& c = style.colours;
    return std::vector<LegendEntry>{
        {"key", MarkerShape::circle, c.both},
        {"anchor", MarkerShape::star, c.ink},
        {"kept", MarkerShape::circle, c.retained},
        {"evicted", MarkerShape::circle, std::nullopt, Stroke{c.evicted, 0.7}}};
  }

  long count() const { return static_cast<long>(tokens.size()); }

  PanelGrid grid(const DrawRequest& request) const override {
    ValueRange across, cosine;
    for (Eigen::Index i = 0; i < plane.rows(); ++i) across.add(static_cast<double>(plane(i, 1)));
    across.add(0.0);
    for (const double value : cosines) cosine.add(value);
    cosine.add(0.0);
    PanelGrid grid;
    Panel anchor, score, keep;
    anchor.title = "Anchor";
    anchor.x = x_axis("Along the anchor", {std::min(-0.05, cosine.low - 0.05), 1.05});
    anchor.y = y_axis("Across", across.padded());
    score.title = "Cosine to the anchor";
    score.x = {AxisMeaning::token, AxisScale::linear,
               tokens.empty() ? 0.0 : static_cast<double>(tokens.front()),
               tokens.empty() ? 1.0 : tokens.back() + 1.0, "Token"};
    score.y = y_axis("cos(anchor, k)", within(cosine.padded(), kCosine));
    keep.title = "Kept";
    keep.x = x_axis("Rank", {0.0, std::max(1.0, static_cast<double>(count()) + 1.0)});
    keep.y = score.y;
    grid.panels = {std::move(anchor), std::move(score), std::move(keep)};
    const bool narrow = request.width < 330.0;
    grid.least_width = narrow ? 150.0 : 80.0;  // one column, or three
    grid.aspect = narrow ? 2.4 : 1.0;
    return grid;
  }

  double mark_size() const { return count() <= 300 ? 3.0 : 2.2; }

  SeriesLook neutral(const Style& style) const {
    SeriesLook look{.colour = style.colours.both};
    return look;
  }

  void add_anchor(Scene& scene, const Style& style, const Axes& axes) const {
    std::vector<Point> data;
    for (Eigen::Index i = 0; i < plane.rows(); ++i) {
      data.push_back({static_cast<double>(plane(i, 0)), static_cast<double>(plane(i, 1))});
    }
    add_dots(scene, style, axes, data, neutral(style), mark_size(), tokens);
    const Point origin = axes.to_page(0.0, 0.0), tip = axes.to_page(anchor_length, 0.0);
    if (!axes.plot.contains(origin) || !axes.plot.contains(tip)) return;
    scene.add(make_line(origin, tip, style.colours.ink, 1.1));
    scene.add(Markers{
        MarkerShape::star, 8.0, style.colours.ink, Stroke{style.colours.paper, 0.7}, {tip}});
  }

  void add_cosines(Scene& scene, const Style& style, const Axes& axes) const {
    std::vector<Point> data;
    for (std::size_t i = 0; i < tokens.size(); ++i) data.push_back({tokens[i] + 0.5, cosines[i]});
    add_dots(scene, style, axes, data, neutral(style), mark_size(), tokens);
  }

  void add_kept(Scene& scene, const Style& style, const Axes& axes) const {
    std::vector<std::size_t> order(tokens.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return cosines[a] < cosines[b]; });
    for (const bool stays : {false, true}) {
      std::vector<Point> data;
      std::vector<std::int32_t> picked;
      for (std::size_t rank = 0; rank < order.size(); ++rank) {
        if (kept[order[rank]] != stays) continue;
        data.push_back({static_cast<double>(rank) + 1.0, cosines[order[rank]]});
        picked.push_back(tokens[order[rank]]);
      }
      SeriesLook look{.colour = stays ? style.colours.retained : style.colours.evicted,
                      .filled = stays};
      add_dots(scene, style, axes, data, look, mark_size(), picked);
    }
    if (budget < count()) {
      add_level(scene, style, axes, budget + 0.5, fmt::format("N = {}", format_count(budget)),
                false);
    }
  }
};

/// Unit keys along the anchor, and in the direction across it in which they vary most.
void fill_plane(KeydiffStages& figure, const Matrix& keys, const Eigen::RowVectorXd& anchor) {
  figure.anchor_length = anchor.norm();
  figure.plane = Matrix::Zero(keys.rows(), 2);
  if (figure.anchor_length == 0.0) return;
  const Eigen::RowVectorXf axis = (anchor / figure.anchor_length).cast<float>();
  Matrix across(keys.rows(), keys.cols());
  for (Eigen::Index i = 0; i < keys.rows(); ++i) {
    const float norm = keys.row(i).norm();
    if (norm == 0.0F) {
      across.row(i).setZero();
      continue;
    }
    const Eigen::RowVectorXf unit = keys.row(i) / norm;
    figure.plane(i, 0) = unit.dot(axis);
    across.row(i) = unit - unit.dot(axis) * axis;
  }
  const PrincipalComponents components = fit_principal_components(view(across));
  figure.plane.col(1) = across * components.basis.row(0).transpose();
  figure.across_share = components.explained[0];
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const HeadReplay& head = head_of(replay, s.layer, s.head);
  auto figure = std::make_unique<KeydiffStages>();
  figure->budget = replay.budget;
  figure->tokens = replay.tokens_at(head, s.step);
  const std::vector<std::int32_t> retained = replay.retained_at(head, s.step);
  progress.check();
  const Matrix all = input.trace->key(s.layer, s.head);
  Matrix keys(static_cast<Eigen::Index>(figure->tokens.size()), all.cols());
  for (std::size_t i = 0; i < figure->tokens.size(); ++i) {
    keys.row(static_cast<Eigen::Index>(i)) = all.row(figure->tokens[i]);
    figure->kept.push_back(std::binary_search(retained.begin(), retained.end(), figure->tokens[i]));
  }
  const Eigen::RowVectorXd anchor = mean_direction(view(keys));
  figure->cosines = cosines_to(view(keys), anchor);
  fill_plane(*figure, keys, anchor);
  figure->caption_text = fmt::format(
      "The three stages of KeyDiff at step {}, layer {}, head {}, {} entries, N = {}: a, "
      "directions "
      "of the cached keys along the anchor, their mean, which has length {}, and along the "
      "orthogonal direction with the largest variance ({} % of it); b, cosine of each key to the "
      "anchor; c, the same in ascending order, with the entries that {} keeps.",
      s.step, s.layer, s.head, format_count(std::ssize(figure->tokens)),
      format_count(replay.budget), format_number(figure->anchor_length),
      format_number(100.0 * figure->across_share, 2), replay.policy);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "keydiff-stages", "Stages of KeyDiff",
      "KeyDiff, figure 3: the anchor μ(K̂) = (1/n)Σ k_i/‖k_i‖ of the cache, the cosine of every key "
      "to the anchor, and the kept keys, those with the lowest cosine. Shown for any policy, with "
      "the cache of that policy",
      Topic::keys, compute, kTwoColumns, 2.6);
  info.needs = {.head = true, .step = true, .policy = true};
  return info;
}

}  // namespace kvloupe::figure::keydiff_stages_figure
