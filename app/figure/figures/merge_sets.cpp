// Which tokens become one entry at a step, with what weights, and how like they were.

#include <array>

#include "app/figure/figures/figures.h"

namespace kvloupe::figure::merge_sets_figure {

namespace {

constexpr int most_columns = 2048;
constexpr int most_distance = 48;

class MergeSets final : public PanelFigure {
 public:
  Selection selection;
  std::vector<Merge> merges;            // of the step, by token
  std::vector<MergeMeasures> measures;  // [merges]
  std::vector<Refit> refits;            // of the step, ascending
  std::vector<std::int32_t> present;    // tokens in the cache before the step's eviction
  std::vector<bool> gone;               // [present]: neither kept nor merged
  Matrix
      likeness;  // [distance,columns]: cos of a token and the one so far before it, over the range

  bool shares_limits() const override { return true; }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    scene.add(PushClip{axes[0].plot});
    add_arcs(scene, style, axes[0]);
    scene.add(PopClip{});
    add_likeness(scene, style, axes[1], scale(request));
    add_measures(scene, style, axes[2]);
    add_biases(scene, style, axes[2]);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"pivot", "member", "weight", "least_cosine", "effective_members",
             "least_member_cosine", "mean_member_cosine", "log_bias", "value_change"});
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t m = 0; m < merges.size(); ++m) {
      for (std::size_t i = 0; i < merges[m].from.size(); ++i) {
        csv.row({merges[m].into, merges[m].from[i], merges[m].weights[i], measures[m].least_cosine,
                 measures[m].effective_members, measures[m].least_member_cosine,
                 measures[m].mean_member_cosine, none, none});
      }
    }
    for (const Refit& refit : refits) {
      csv.row({refit.token, refit.token, 1.0, none, none, none, none, refit.log_bias,
               refit.value_change});
    }
  }

  std::string value_text(const Target& target) const override {
    for (std::size_t m = 0; m < merges.size(); ++m) {
      for (std::size_t i = 0; i < merges[m].from.size(); ++i) {
        if (merges[m].from[i] != target.token) continue;
        return fmt::format("{} {}, weight {}, {} effective members of {}",
                           target.token == merges[m].into ? "pivot of" : "merged into",
                           merges[m].into, format_number(static_cast<double>(merges[m].weights[i])),
                           format_number(measures[m].effective_members), merges[m].from.size());
      }
    }
    for (const Refit& refit : refits) {
      if (refit.token != target.token) continue;
      return fmt::format("refitted, log-bias {}, value changed by {} of its length",
                         format_number(static_cast<double>(refit.log_bias)),
                         format_number(static_cast<double>(refit.value_change)));
    }
    return {};
  }

 private:
  Legend legend(const Style& style) const override {
    const Palette& c = style.colours;
    if (!refits.empty()) {
      return std::vector<LegendEntry>{
          {"synthetic", MarkerShape::diamond, c.pivot},
          {"evicted", MarkerShape::circle, std::nullopt, Stroke{c.evicted, 0.7}}};
    }
    return std::vector<LegendEntry>{
        {"pivot", MarkerShape::diamond, c.pivot},
        {"merged", MarkerShape::circle, c.merged},
        {"evicted", MarkerShape::circle, std::nullopt, Stroke{c.evicted, 0.7}}};
  }

  static ColourScale scale(const DrawRequest& request) {
    ColourScale colours{.is_signed = true, .low = -1.0, .high = 1.0, .label = "Cosine"};
    choose_limits(colours, request.limits, kCosine);
    return colours;
  }

  /// The longest way from a member to its pivot, in tokens.
  double reach() const {
    double most = 1.0;
    for (const Merge& merge : merges) {
      for (const int token : merge.from) most = std::max(most, std::abs(token - merge.into) + 0.0);
    }
    return most;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    const std::pair<double, double> all(selection.first_token, selection.last_token + 1.0);
    const auto [first, last] = request.x_range.value_or(all);
    const Axis tokens{AxisMeaning::token, AxisScale::linear, first, last, "Token"};
    Panel arcs, map, cosines;
    arcs.title = "Merging sets";
    map.title = "Likeness to the tokens before";
    cosines.title = "Merged key to members";
    arcs.x = map.x = cosines.x = tokens;
    arcs.y = y_axis("Tokens apart", {-0.12 * reach(), 1.08 * reach()});
    map.y = {AxisMeaning::value, AxisScale::linear, 0.5, static_cast<double>(likeness.rows()) + 0.5,
             "Distance"};
    map.is_map = true;
    ValueRange range;
    for (const MergeMeasures& one : measures) range.add(one.least_member_cosine);
    cosines.y = y_axis("Cosine", {range.empty() ? 0.0 : std::min(0.9, range.low - 0.02), 1.005});
    PanelGrid grid;
    if (!refits.empty()) {
      arcs.title = "Synthetic entries";
      cosines.title = "Log-bias";
      ValueRange biases;
      for (const Refit& refit : refits) biases.add(static_cast<double>(refit.log_bias));
      biases.add(0.0);
      const double pad = std::max(0.1, 0.08 * (biases.high - biases.low));
      cosines.y = y_axis("Log-bias", {biases.low - pad, biases.high + pad});
    }
    grid.panels = {std::move(arcs), std::move(map), std::move(cosines)};
    grid.columns = 1;
    grid.aspect = request.width < 330.0 ? 2.6 : 5.2;
    grid.right = colour_bar_width(request.style, scale(request), 60.0);
    return grid;
  }

  void add_arcs(Scene& scene, const Style& style, const Axes& axes) const {
    const Palette& c = style.colours;
    Markers members{MarkerShape::circle, 2.0, c.merged};
    Markers pivots{MarkerShape::diamond, 4.0, c.pivot, Stroke{c.paper, 0.3}, {}};
    Markers evicted{MarkerShape::circle, 1.8, std::nullopt, Stroke{c.evicted, 0.45}, {}};
    PickPoints pick;
    const auto at = [&](int token) { return axes.to_page(token + 0.5, 0.0); };
    for (const Merge& merge : merges) {
      const float most = *std::max_element(merge.weights.begin(), merge.weights.end());
      for (std::size_t i = 0; i < merge.from.size(); ++i) {
        if (merge.from[i] == merge.into) continue;
        const double apart = std::abs(merge.from[i] - merge.into);
        // A cubic whose controls are 4/3 as high as its top.
        const double top = axes.to_page(0.0, 4.0 / 3.0 * apart).y;
        const Point from = at(merge.from[i]), to = at(merge.into);
        Path arc;
        arc.move(from).curve({from.x, top}, {to.x, top}, to);
        const double share = most > 0.0F ? static_cast<double>(merge.weights[i] / most) : 0.0;
        add_stroked(scene, std::move(arc), {c.merged, 0.3 + 0.9 * share, {}, Cap::round});
        members.points.push_back(from);
        pick.points.push_back(from);
        pick.tokens.push_back(merge.from[i]);
      }
      pivots.points.push_back(at(merge.into));
      pick.points.push_back(at(merge.into));
      pick.tokens.push_back(merge.into);
    }
    for (const Refit& refit : refits) {
      pivots.points.push_back(at(refit.token));
      pick.points.push_back(at(refit.token));
      pick.tokens.push_back(refit.token);
    }
    const double below = axes.to_page(0.0, -0.07 * reach()).y;
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (gone[i]) evicted.points.push_back({at(present[i]).x, below});
    }
    for (Markers* marks : {&evicted, &members, &pivots}) {
      if (!marks->points.empty()) scene.add(std::move(*marks));
    }
    if (!pick.points.empty()) scene.point_sets.push_back(std::move(pick));
    if (!merges.empty() || !refits.empty()) return;
    Text none = make_text(
        style,
        style.fonts->fit("no merges at this step", Font::regular, style.small, axes.plot.width),
        axes.plot.centre(), style.small, Font::regular, Align::centre);
    none.colour = c.faint;
    scene.add(std::move(none));
  }

  void add_likeness(Scene& scene, const Style& style, const Axes& axes,
                    const ColourScale& colours) const {
    auto pixels =
        paint({likeness.data(), static_cast<std::size_t>(likeness.size())},
              static_cast<int>(likeness.cols()), static_cast<int>(likeness.rows()), colours);
    const Point from = axes.to_page(selection.first_token, axes.y.first);
    const Point to = axes.to_page(selection.last_token + 1.0, axes.y.last);
    scene.add(PushClip{axes.plot});
    add_image(scene, std::move(pixels), {from.x, from.y, to.x - from.x, to.y - from.y});
    scene.add(PopClip{});
    add_colour_bar(scene, style, axes.plot, colours);
  }

  /// A stem from 0 to each log-bias, its mark larger where the value changed more.
  void add_biases(Scene& scene, const Style& style, const Axes& axes) const {
    if (refits.empty()) return;
    const Palette& c = style.colours;
    Path zero, stems;
    const double y0 = axes.to_page(0.0, 0.0).y;
    zero.move({axes.plot.x, y0}).line({axes.plot.right(), y0});
    zero.stroke = Stroke{c.grid, 0.5};
    // Sizes are three: a change of less than a tenth of the value, of less than its length, or
    // more.
    constexpr double kSizes[] = {1.8, 2.8, 4.0};
    std::array<Markers, 3> marks;
    PickPoints pick;
    for (const Refit& refit : refits) {
      const Point at = axes.to_page(refit.token + 0.5, static_cast<double>(refit.log_bias));
      if (!axes.plot.contains(at)) continue;
      stems.move({at.x, y0}).line(at);
      marks[refit.value_change < 0.1F ? 0 : refit.value_change < 1.0F ? 1 : 2].points.push_back(at);
      pick.points.push_back(at);
      pick.tokens.push_back(refit.token);
    }
    scene.add(std::move(zero));
    add_stroked(scene, std::move(stems), {c.merged, 0.45});
    for (std::size_t i = 0; i < marks.size(); ++i) {
      marks[i].shape = MarkerShape::diamond;
      marks[i].size = kSizes[i];
      marks[i].fill = c.pivot;
      if (!marks[i].points.empty()) scene.add(std::move(marks[i]));
    }
    if (!pick.points.empty()) scene.point_sets.push_back(std::move(pick));
  }

  void add_measures(Scene& scene, const Style& style, const Axes& axes) const {
    Path spans;
    Markers means{MarkerShape::circle, 3.0, style.colours.pivot};
    for (std::size_t m = 0; m < merges.size(); ++m) {
      if (!std::isfinite(measures[m].mean_member_cosine)) continue;
      const double x = merges[m].into + 0.5;
      const Point mean = axes.to_page(x, measures[m].mean_member_cosine);
      if (!axes.plot.contains(mean)) continue;
      means.points.push_back(mean);
      const Point least = axes.to_page(x, measures[m].least_member_cosine);
      if (least.y > mean.y) spans.move(mean).line(least);
    }
    add_stroked(scene, std::move(spans), {style.colours.merged, 0.7});
    if (!means.points.empty()) scene.add(std::move(means));
  }
};

/// cos(k_t, k_{t−n}) for n = 1, 2, …, rows, and t over the range, pooled to columns by their mean;
/// NaN where there is no such token.
Matrix likeness_of(const Matrix& keys, int first, int last, Progress& progress) {
  const int count = last - first + 1;
  const int columns = std::min(count, most_columns);
  Matrix unit = keys;
  for (Eigen::Index i = 0; i < unit.rows(); ++i) {
    const float norm = unit.row(i).norm();
    if (norm > 0.0F) unit.row(i) /= norm;
  }
  const int distances = std::min(most_distance, std::max(1, last));
  Matrix result = Matrix::Zero(distances, columns);
  Matrix counts = Matrix::Zero(distances, columns);
  for (int t = first; t <= last; ++t) {
    if (t % 256 == 0) progress.check();
    const auto column = static_cast<Eigen::Index>(static_cast<long>(t - first) * columns / count);
    for (int n = 1; n <= std::min(distances, t); ++n) {
      result(n - 1, column) += unit.row(t).dot(unit.row(t - n));
      counts(n - 1, column) += 1.0F;
    }
  }
  return (counts.array() > 0.0F)
      .select(result.array() / counts.array(), std::numeric_limits<float>::quiet_NaN());
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const PolicySpec policy = chosen_policies(input).front();
  const auto replay =
      replays_of(input,
                 {{.policy = policy,
                   .layers = {s.layer},
                   .measures = {"retained_mass"},  // and with it the merges of the step
                   .steps = {s.step}}},
                 progress)
          .front();
  const HeadReplay& head = head_of(*replay, s.layer, s.head);
  const StepRecord& record = head.steps.at(static_cast<std::size_t>(s.step));
  auto figure = std::make_unique<MergeSets>();
  figure->selection = s;
  figure->merges = record.merges;
  figure->measures = record.merge_measures;
  figure->refits = record.refits;
  figure->present = replay->tokens_at(head, s.step);
  const std::vector<std::int32_t> retained = replay->retained_at(head, s.step);
  for (const std::int32_t token : figure->present) {
    const bool merged =
        std::any_of(record.merges.begin(), record.merges.end(), [&](const Merge& m) {
          return std::find(m.from.begin(), m.from.end(), token) != m.from.end();
        });
    figure->gone.push_back(!merged && !std::binary_search(retained.begin(), retained.end(), token));
  }
  progress.check();
  figure->likeness =
      likeness_of(input.trace->key(s.layer, s.head), s.first_token, s.last_token, progress);
  const std::string where =
      fmt::format("of step {}, layer {}, head {}, {}, N = {}", s.step, s.layer, s.head,
                  replay->policy, format_count(replay->budget));
  long members = 0;
  for (const Merge& merge : record.merges) members += std::ssize(merge.from);
  figure->caption_text =
      record.refits.empty()
          ? fmt::format(
                "Merging sets {}: {} sets of {} entries. a, arcs from members to their pivot, "
                "wider "
                "with a larger weight; b, cosine of every key to the keys before it; c, cosine of "
                "a "
                "merged key to its members: mean and minimum.",
                where, format_count(std::ssize(record.merges)), format_count(members))
          : fmt::format(
                "Synthetic entries {}: {} entries stay with their keys and get a log-bias and a "
                "value of their own. a, the synthetic entries, and below them what is evicted; b, "
                "cosine of every key to the keys before it; c, the log-biases, larger marks where "
                "the value changed more.",
                where, format_count(std::ssize(record.refits)));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "merge-sets", "Merging sets",
      "KVMerger, algorithm 1: neighbours whose keys have a cosine above the threshold become one "
      "entry at their pivot, with Gaussian weights; the policy sets the threshold. Below: how "
      "similar keys are to the keys before them, and how similar a merged key (an average of "
      "rotated keys) is to its members. Under attentionmatching: the entries that were refitted, "
      "with their log-biases",
      Topic::merging, compute, kTwoColumns, 2.0);
  info.zoom = Zoom::x;
  info.limits = true;
  info.needs = {.head = true, .step = true, .tokens = true, .comparison = true};
  info.choices = {policies_choice("h2o+kvmerger")};
  return info;
}

}  // namespace kvloupe::figure::merge_sets_figure
