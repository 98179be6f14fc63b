// The blame of a replay beside the proof of the running model: heads × (predicted loss, tokens kept
// in that head alone, tokens dropped in that head alone). From the results of kvloupe-capture
// rescue.

#include <numeric>
#include <span>
#include <utility>

#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/printable.h"

namespace kvloupe::figure::rescue_figure {

namespace {

constexpr std::size_t kMostHeads = 24;  // rows that stay legible in a page's height
constexpr double kRow = 9.0;            // points
constexpr double kLeastBar = 1.0;       // points
constexpr double kWithProof = 300.0;    // points: room for a fourth panel beside the bars

bool contains(const std::optional<std::vector<HeadIndex>>& set, const HeadIndex& head) {
  return set && std::find(set->begin(), set->end(), head) != set->end();
}

class Rescue final : public Figure {
 public:
  RescueResults results;
  std::string model;
  std::vector<std::size_t> rows;  // indices of heads, as they are listed

  double natural_height(const DrawRequest& /*request*/) const override {
    return kRow * static_cast<double>(rows.size()) + 58.0;
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const std::vector<Axes> axes = add_panels(scene, style, panels(request));
    const auto bars = [&](const Axes& at, Colour colour, const auto& value, const auto& filled) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const double end = value(rows[row]);
        const double length = std::abs(at.to_page(end, 0.0).x - at.to_page(0.0, 0.0).x);
        if (!(length >= kLeastBar)) continue;  // its outline would be all there is
        SeriesLook look{.colour = colour, .filled = filled(rows[row])};
        add_bar(scene, style, at, static_cast<double>(row), 0.0, end, look, 0, 1, false);
      }
    };
    mark_set(scene, style, axes[1], results.keep.smallest);
    mark_set(scene, style, axes[2], results.drop.smallest);
    bars(
        axes[0], style.colours.neither, [&](std::size_t i) { return results.predicted[i]; },
        [](std::size_t) { return true; });
    bars(
        axes[1], style.colours.retained, [&](std::size_t i) { return results.keep.heads[i].gain; },
        [&](std::size_t i) { return results.keep.heads[i].right; });
    bars(
        axes[2], style.colours.evicted, [&](std::size_t i) { return results.drop.heads[i].gain; },
        [&](std::size_t i) { return !results.drop.heads[i].right; });
    add_rule(scene, style, axes[1], results.keep.all.gain);
    add_rule(scene, style, axes[2], results.drop.all.gain);
    if (axes.size() > 3) add_scatter(scene, style, axes[3]);
    for (const Axes& at : std::span(axes).first(3)) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const RescueEffect& head = results.keep.heads[rows[row]];
        Target target{.layer = head.at.layer, .head = head.at.head};
        scene.regions.push_back({row_of(at, row), target});
      }
    }
    return scene;
  }

  std::string caption() const override {
    const RescueResults& r = results;
    std::string text = fmt::format(
        "Effect of the loss of {} token{} on the answer “{}”{}, policy {} with {} entries. "
        "Full cache: “{}” (log-probability {:.2f} nats); with the policy: “{}” ({:.2f}). ",
        r.tokens.size(), r.tokens.size() == 1 ? "" : "s", printable(r.expected),
        model.empty() ? "" : " of " + model, r.policy, r.budget, printable(r.full_says),
        r.full_logprob, printable(r.policy_says), r.policy_logprob);
    text += fmt::format(
        "a, {}, from a replay; b, gain in the log-probability of “{}” when the running model with "
        "the policy keeps them in that head alone (filled: the answer is right); c, its change "
        "when the full cache drops them in that head alone (filled: wrong). Dashed: in all heads "
        "at once. If there is room, d: a against b, every head (filled: in the set). ",
        predicted_words(), printable(r.expected));
    const auto set = [&](const RescueSide& side, const char* does) {
      if (!side.smallest) return;
      text += fmt::format("Shaded in {}: a set of {} head{} that {} the answer, {} ({}). ",
                          &side == &r.keep ? "b" : "c", side.smallest->size(),
                          side.smallest->size() == 1 ? "" : "s", does,
                          side.minimal ? "all of which are needed"
                                       : "some of which may not be needed (the search was ended)",
                          heads_text(*side.smallest));
    };
    set(r.keep, "restores");
    set(r.drop, "breaks");
    if (r.stopped) {
      text += r.policy_right ? "Nothing has to be rescued: no set was looked for. "
                             : "Keeping them in all heads does not restore the answer: no set was "
                               "looked for. ";
    }
    if (const int within = r.set_within(); within > 0) {
      text += fmt::format("The first {} of {} heads by a hold the set that restores it. ", within,
                          r.predicted.size());
    }
    if (!std::isnan(r.rank_correlation)) {
      text += fmt::format("Rank correlation of a with the log-probability in b: {:.2f}{}. ",
                          r.rank_correlation, all_known() ? "" : " (over the heads that were run)");
    }
    if (!all_known()) {
      text += fmt::format("Of {} heads, {} were run alone in b and {} in c; empty rows: not run. ",
                          r.predicted.size(), r.keep.known_heads(), r.drop.known_heads());
    }
    if (rows.size() < r.keep.heads.size()) {
      text += fmt::format("The {} heads with the largest values of {}. ", rows.size(),
                          r.keep.heads.size());
    }
    text.pop_back();
    return text;
  }

 private:
  bool all_known() const {
    const int heads = static_cast<int>(results.predicted.size());
    return results.keep.known_heads() == heads && results.drop.known_heads() == heads;
  }

  /// The number by which a replay blames a head.
  std::string predicted_words() const {
    if (results.predicted_by == "loss") return "attention to these tokens × share lost";
    return fmt::format(
        "{} if the head had these tokens back, a mean over {}",
        results.predicted_by == "logit" ? "rise of the logit of the next token"
                                        : "change of the residual stream",
        results.predicted_over.empty() ? "the answer" : printable(results.predicted_over));
  }
  const char* predicted_axis() const {
    if (results.predicted_by == "logit") return "Logit";
    return results.predicted_by == "change" ? "Change" : "Attention lost";
  }

  /// Every head: the prediction against the gain of keeping the tokens there.
  void add_scatter(Scene& scene, const Style& style, const Axes& axes) const {
    for (const bool of_set : {false, true}) {
      Markers points{.size = 4.0};
      if (of_set) points.fill = style.colours.retained;
      points.stroke = Stroke{style.colours.retained, 0.7};
      for (std::size_t i = 0; i < results.keep.heads.size(); ++i) {
        const RescueEffect& kept = results.keep.heads[i];
        if (std::isnan(results.predicted[i]) || !kept.is_known() ||
            contains(results.keep.smallest, kept.at) != of_set)
          continue;
        const Point at = axes.to_page(results.predicted[i], kept.gain);
        points.points.push_back(at);
        scene.regions.push_back(
            {{at.x - 2.5, at.y - 2.5, 5.0, 5.0}, {.layer = kept.at.layer, .head = kept.at.head}});
      }
      if (!points.points.empty()) scene.add(std::move(points));
    }
  }

  static Rect row_of(const Axes& axes, std::size_t row) {
    const double top = axes.to_page(axes.x.first, static_cast<double>(row)).y;
    const double bottom = axes.to_page(axes.x.first, static_cast<double>(row + 1)).y;
    return {axes.plot.x, top, axes.plot.width, bottom - top};
  }

  /// A band behind the rows of a set.
  void mark_set(Scene& scene, const Style& style, const Axes& axes,
                const std::optional<std::vector<HeadIndex>>& set) const {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!contains(set, results.keep.heads[rows[row]].at)) continue;
      Path band;
      band.rect(row_of(axes, row));
      band.fill = style.colours.grid;
      scene.add(std::move(band));
    }
  }

  /// A rule at the effect in all heads at once.
  static void add_rule(Scene& scene, const Style& style, const Axes& axes, double value) {
    const Point top = axes.to_page(value, axes.y.first);
    const Point bottom = axes.to_page(value, axes.y.last);
    scene.add(make_line(top, bottom, style.colours.faint, 0.8, {2.5, 2.0}));
  }

  PanelGrid panels(const DrawRequest& request) const {
    std::vector<std::string> names;
    for (const std::size_t i : rows) {
      const HeadIndex& head = results.keep.heads[i].at;
      names.push_back(fmt::format("{}.{}", head.layer, head.head));
    }
    const auto range = [&](const RescueSide& side) {
      ValueRange values;
      values.add(0.0);
      values.add(side.all.gain);
      for (const std::size_t i : rows) values.add(side.heads[i].gain);
      return values.padded();
    };
    ValueRange predicted;
    for (const std::size_t i : rows) predicted.add(results.predicted[i]);
    ValueRange every, gains;
    gains.add(0.0);
    for (std::size_t i = 0; i < results.keep.heads.size(); ++i) {
      if (!std::isnan(results.predicted[i])) every.add(results.predicted[i]);
      gains.add(results.keep.heads[i].gain);
    }
    PanelGrid grid;
    const bool proof = request.width > kWithProof;
    grid.columns = proof ? 4 : 3;
    grid.least_width = 40.0;
    const auto add = [&](std::string title, Axis x) {
      Panel panel;
      panel.title = std::move(title);
      panel.x = std::move(x);
      panel.x_grid = true;
      panel.y = name_axis(names, "Layer, head");
      grid.panels.push_back(std::move(panel));
    };
    // A logit may fall as well.
    add("Predicted",
        x_axis(predicted_axis(),
               results.predicted_by == "logit" ? predicted.padded() : predicted.from_zero()));
    add("Kept", x_axis("Gain (nats)", range(results.keep)));
    add("Dropped", x_axis("Change (nats)", range(results.drop)));
    if (!proof) return grid;
    Panel scatter{.title = "Proof",
                  .x = x_axis(predicted_axis(), every.padded()),
                  .y = y_axis("Gain (nats)", gains.padded())};
    scatter.x_grid = scatter.y_grid = true;
    grid.panels.push_back(std::move(scatter));
    return grid;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  auto figure = std::make_unique<Rescue>();
  figure->results = *input.evaluation->rescue;
  figure->model = input.evaluation->model;
  const RescueResults& r = figure->results;
  std::vector<std::size_t> order(r.keep.heads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The listed heads have the largest effect of any kind, as a share of that kind's largest.
  const auto largest = [&](const auto& value) {
    double most = 0.0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (std::isfinite(value(i))) most = std::max(most, std::abs(value(i)));
    }
    return most;
  };
  const auto loss = [&](std::size_t i) { return r.predicted[i]; };
  const auto kept = [&](std::size_t i) { return r.keep.heads[i].gain; };
  const auto dropped = [&](std::size_t i) { return r.drop.heads[i].gain; };
  const double most[] = {largest(loss), largest(kept), largest(dropped)};
  const auto share = [](double value, double of) {
    return of > 0.0 && std::isfinite(value) ? std::abs(value) / of : 0.0;
  };
  const auto weight = [&](std::size_t i) {
    return std::max({share(loss(i), most[0]), share(kept(i), most[1]), share(dropped(i), most[2])});
  };
  const auto in_a_set = [&](std::size_t i) {
    return contains(r.keep.smallest, r.keep.heads[i].at) ||
           contains(r.drop.smallest, r.keep.heads[i].at);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return in_a_set(a) != in_a_set(b) ? in_a_set(a) : weight(a) > weight(b);
  });
  const auto of_sets =
      static_cast<std::size_t>(std::count_if(order.begin(), order.end(), in_a_set));
  order.resize(std::min(order.size(), std::max(kMostHeads, of_sets)));
  // By the proof, the running model's gain when the tokens are kept; those not run by the blame.
  const auto known = [](double value) {
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(known(kept(a)), known(loss(a))) > std::pair(known(kept(b)), known(loss(b)));
  });
  figure->rows = std::move(order);
  figure->add_row({"layer", "head", "predicted_loss", "kept_right", "kept_logprob", "kept_gain",
                   "in_smallest_kept", "dropped_right", "dropped_logprob", "dropped_gain",
                   "in_smallest_dropped"});
  // If a head was not run alone, it is also unknown whether its answer is right.
  const auto right = [](const RescueEffect& effect) {
    return effect.is_known() ? static_cast<double>(effect.right) : effect.gain;
  };
  const auto proof = [](const RescueEffect& effect) {
    return effect.is_known()
               ? fmt::format("{:+.3g} nats ({})", effect.gain, effect.right ? "right" : "wrong")
               : std::string("not run");
  };
  for (std::size_t i = 0; i < r.keep.heads.size(); ++i) {
    const RescueEffect &own = r.keep.heads[i], &gone = r.drop.heads[i];
    figure->add_row({own.at.layer, own.at.head, r.predicted[i], right(own), own.logprob, own.gain,
                     contains(r.keep.smallest, own.at), right(gone), gone.logprob, gone.gain,
                     contains(r.drop.smallest, own.at)});
    figure->say({.layer = own.at.layer, .head = own.at.head},
                fmt::format("predicted {} · kept {} · dropped {}",
                            std::isnan(r.predicted[i]) ? "–" : format_number(r.predicted[i]),
                            proof(own), proof(gone)));
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info =
      evaluation_figure("rescue", "Blame and proof, head by head",
                        "The heads whose loss of the followed tokens makes the answer wrong: the "
                        "prediction of a replay beside the answers of the running model when these "
                        "tokens are kept, or dropped, in one head alone, by falling gain",
                        compute, kTwoColumns, 2.0, "rescue");
  info.unfit = [](const Evaluation& evaluation) -> std::string {
    if (evaluation.task == Evaluation::Task::rescue) return {};
    return "has no interventions; give results of kvloupe-capture rescue";
  };
  return info;
}

}  // namespace kvloupe::figure::rescue_figure
