// Why one token stays or leaves: its score and rank against those needed to stay, step by step.

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/explain.h"
#include "app/figure/figures/figures.h"
#include "app/figure/token_state.h"
#include "app/plot/text_flow.h"

namespace kvloupe::figure::why_figure {

namespace {

class Why final : public Figure {
 public:
  std::string text;  // of the token
  TokenExplanation explanation;
  bool attention = false;  // the score is one, and not negative

  /// One sentence: when it came, what protected it, when and why it left.
  std::string fate() const {
    int protected_steps = 0;
    for (const StepReason& one : explanation.steps)
      protected_steps += one.decided && is_protection(one.fate) ? 1 : 0;
    std::string sentence = fmt::format("It entered at step {}", explanation.entered);
    if (protected_steps > 0)
      sentence += fmt::format(", was protected at {} step{}", protected_steps,
                              protected_steps == 1 ? "" : "s");
    if (explanation.left < 0) return sentence + " and stayed to the end.";
    const bool by_itself = last().fate == Fate::beyond_window;
    const std::string how = std::string(by_itself ? "" : "was ") + leaving_text(last().fate);
    sentence += explanation.left == explanation.entered
                    ? fmt::format(" and {} at once", how)
                    : fmt::format(" and {} at step {}", how, explanation.left);
    if (last().rank > 0)
      sentence += fmt::format(", ranked {} of {}", format_count(last().rank),
                              format_count(last().cache_size));
    if (std::isfinite(last().margin))
      sentence += fmt::format(", {} from the threshold", format_number(last().margin));
    return sentence + ".";
  }

  double natural_height(const DrawRequest& request) const override {
    return top(request) + panels_natural_height(request.style, grid(0.0), request.width);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    if (is_small(request)) {
      const std::vector<Axes> axes = add_panels(scene, style, grid(2.0, true));
      draw_series(scene, style, axes.front(), true);
      return scene;
    }
    double y = 2.0;
    for (const std::string& line : verdict(style, request.width)) {
      y += style.text * 1.3;
      scene.add(make_text(style, line, {2.0, y - style.text * 0.35}));
    }
    if (request.legend) add_legend(scene, style, {2.0, y}, request.width - 4.0, legend(style));
    PanelGrid panels = grid(top(request));
    show_limits(request, panels);
    const std::vector<Axes> axes = add_panels(scene, style, panels);
    draw_series(scene, style, axes[0], true);
    draw_series(scene, style, axes[1], false);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"step", "cache_size", "score", "rank", "threshold", "margin", "retained", "reason"});
    for (const StepReason& one : explanation.steps) {
      const std::string why = reason_text(explanation, one);
      csv.row({one.step, one.cache_size, one.score, one.rank, one.threshold, one.margin,
               one.retained, why});
    }
  }

  std::string value_text(const Target& target) const override {
    for (const StepReason& one : explanation.steps) {
      if (one.step == target.step) return reason_text(explanation, one);
    }
    return {};
  }

 private:
  /// No room for words and a second panel.
  static bool is_small(const DrawRequest& request) { return request.height < 140.0; }

  const StepReason& last() const { return explanation.steps.back(); }

  std::vector<std::string> verdict(const Style& style, double width) const {
    return wrap(style, fmt::format("Token {} “{}”. {}", explanation.token, text, fate()),
                style.text, width - 4.0);
  }

  double top(const DrawRequest& request) const {
    const Style& style = request.style;
    double y = 2.0 + style.text * 1.3 * static_cast<double>(verdict(style, request.width).size());
    Scene scratch = make_scene(style, request.width, 100.0);
    if (request.legend)
      y += add_legend(scratch, style, {2.0, y}, request.width - 4.0, legend(style)) + 1.0;
    return y;
  }

  bool any(bool (*is)(const StepReason&)) const {
    return std::any_of(explanation.steps.begin(), explanation.steps.end(), is);
  }

  std::vector<LegendEntry> legend(const Style& style) const {
    const Palette& c = style.colours;
    std::vector<LegendEntry> entries;
    if (any([](const StepReason& r) {
          return r.decided && (r.fate == Fate::by_score || r.fate == Fate::by_second_stage);
        }))
      entries.push_back({"kept by its score", MarkerShape::circle, c.retained});
    if (any([](const StepReason& r) { return r.decided && is_protection(r.fate); }))
      entries.push_back({"protected", MarkerShape::square, c.protected_});
    if (any([](const StepReason& r) { return r.decided && r.fate == Fate::merged; }))
      entries.push_back({"merged", MarkerShape::diamond, c.merged});
    if (any([](const StepReason& r) { return r.decided && r.fate == Fate::evicted; }))
      entries.push_back({"evicted", MarkerShape::circle, std::nullopt, Stroke{c.evicted, 0.9}});
    return entries;
  }

  PanelGrid grid(double above, bool score_alone = false) const {
    ValueRange score, rank;
    rank.add(1.0);
    for (const StepReason& one : explanation.steps) {
      score.add(one.score);
      score.add(one.threshold);
      rank.add(static_cast<double>(one.cache_size));
    }
    const double first = explanation.entered;
    const double end = std::max(explanation.steps.back().step + 1.0, first + 2.0);
    const Axis x{AxisMeaning::step, AxisScale::linear, first, end, "Step"};
    PanelGrid grid{.columns = 1, .aspect = 2.6, .top = above, .beside = 34.0};
    const ValueRange ranks = rank.padded(0.04);
    ValueRange scores = score.padded(0.08);
    if (attention) scores = within(scores, score.high <= 1.0 ? kShare : Bounds{.least = 0.0});
    Axis rank_axis = y_axis("Rank", ranks);
    std::swap(rank_axis.first, rank_axis.last);  // 1, the highest, is at the top
    grid.panels = {{"Score, and the lowest score kept", x, y_axis("Score", scores)},
                   {"Rank, and number of entries kept", x, rank_axis}};
    if (score_alone) grid.panels.pop_back();
    return grid;
  }

  void draw_series(Scene& scene, const Style& style, const Axes& axes, bool scores) const {
    std::vector<Point> own, bar;
    for (const StepReason& one : explanation.steps) {
      const double x = one.step + 0.5;
      own.push_back({x, scores ? one.score : one.rank > 0 ? one.rank : std::nan("")});
      bar.push_back({x, !one.decided ? std::nan("") : scores ? one.threshold : one.retained});
    }
    SeriesLook line = series_look(style, 0);
    line.width = 0.9;
    add_line(scene, axes, own, line);
    SeriesLook dashed{.colour = style.colours.ink, .dash = {2.0, 1.5}, .width = 0.8};
    add_line(scene, axes, bar, dashed);
    if (bar.size() == 1 && std::isfinite(bar.front().y)) {  // one step is not a line
      const Point at = axes.to_page(bar.front().x, bar.front().y);
      Path dash = make_line({at.x - 6.0, at.y}, {at.x + 6.0, at.y}, dashed.colour, 0.8);
      scene.add(std::move(dash));
    }
    add_fates(scene, style, axes, own);
    const auto end =
        std::find_if(bar.rbegin(), bar.rend(), [](const Point& p) { return std::isfinite(p.y); });
    if (end == bar.rend()) return;
    const double y = axes.to_page(end->x, end->y).y;
    scene.add(make_text(style, scores ? "threshold" : "kept",
                        {axes.plot.right() + 2.0, y + style.fonts->cap_height() * style.small / 2},
                        style.small));
  }

  void add_fates(Scene& scene, const Style& style, const Axes& axes,
                 const std::vector<Point>& own) const {
    const Palette& c = style.colours;
    const double size = explanation.steps.size() > 60 ? 2.4 : 4.0;
    Markers kept{MarkerShape::circle, size, c.retained};
    Markers shielded{MarkerShape::square, size, c.protected_};
    Markers merged{MarkerShape::diamond, size + 1.5, c.merged};
    Markers evicted{MarkerShape::circle, 5.5, c.paper, Stroke{c.evicted, 1.1}, {}};
    for (std::size_t i = 0; i < own.size(); ++i) {
      const StepReason& one = explanation.steps[i];
      if (!one.decided || !std::isfinite(own[i].y)) continue;
      Markers& marks = one.fate == Fate::evicted || one.fate == Fate::dropped ? evicted
                       : one.fate == Fate::merged                             ? merged
                       : is_protection(one.fate)                              ? shielded
                                                                              : kept;
      marks.points.push_back(axes.to_page(own[i].x, own[i].y));
    }
    for (Markers* marks : {&kept, &shielded, &merged, &evicted}) {
      if (!marks->points.empty()) scene.add(std::move(*marks));
    }
  }
};

/// The closest call: of the entries that a step decided by their score, the evicted one nearest to
/// the threshold; at the step asked for or the nearest one before (else after) at which something
/// left. 0 where nothing ever did.
int closest_call(const Replay& replay, const HeadReplay& head, int step) {
  const auto at_step = [&](int s) {
    const auto at = static_cast<std::size_t>(s);
    if (head.scores[at].empty()) return -1;
    const std::vector<std::int32_t> tokens = replay.tokens_at(head, s);
    const auto threshold = head.steps[at].threshold;
    int best = -1;
    float least = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (head.evicted_at[static_cast<std::size_t>(tokens[i])] != s) continue;
      if (!head.fates[at].empty() && head.fates[at][i] == Fate::dropped) continue;  // not by score
      const float away = std::abs(head.scores[at][i] - threshold);
      if (best >= 0 && !(away < least)) continue;
      best = tokens[i];
      least = away;
    }
    return best;
  };
  for (int s = step; s >= 0; --s) {
    if (const int token = at_step(s); token >= 0) return token;
  }
  for (int s = step + 1; s < static_cast<int>(head.steps.size()); ++s) {
    if (const int token = at_step(s); token >= 0) return token;
  }
  return 0;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const HeadReplay& head = head_of(replay, s.layer, s.head);
  progress.check();
  auto figure = std::make_unique<Why>();
  figure->attention = score_scale(parse_policy(replay.policy)) == ScoreScale::attention;
  const int token = s.token >= 0 ? s.token : closest_call(replay, head, s.step);
  figure->explanation = explain(replay, head, token);
  const auto at = static_cast<std::size_t>(token);
  figure->text = token_text(input.trace->tokens(), at + 1).text.back();
  figure->text.erase(0, figure->text.find_first_not_of(' '));
  figure->caption_text = fmt::format(
      "Token {} in layer {}, head {} under {} with N = {}: a, its score, and the lowest score of "
      "the entries kept by score (dashed); b, its rank in the cache, and the number of entries "
      "kept (dashed). {}",
      token, s.layer, s.head, replay.policy, format_count(replay.budget), figure->fate());
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "why", "Why this token",
      "The selected token's score and rank at every step, compared with the lowest score kept and "
      "the number of entries kept; its protection, and the step at which it left. If no token is "
      "selected: the closest decision of the step",
      Topic::kept, compute, kColumn, 1.2);
  info.needs = {.head = true, .step = true, .token = true, .policy = true, .scores = true};
  return info;
}

}  // namespace kvloupe::figure::why_figure
