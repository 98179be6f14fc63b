// The effect of a head's loss of some tokens on the full cache's answer, against possible
// predictors: attention, the policy's score, and the replay's first-order number. Every dot is a
// head. The data are results of kvloupe-capture rescue.

#include <array>

#include "analysis/metric/rank_correlation.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/head_scatter.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/printable.h"

namespace kvloupe::figure::cause_scatter_figure {

namespace {

constexpr double kDot = 3.2;  // points

/// A number that may foretell the effect of a head's loss.
struct Foreteller {
  const char* column;
  const char* axis;
  double RescuePrediction::*value;
};
constexpr std::array kForetellers{
    Foreteller{"attention", "Attention", &RescuePrediction::attention},
    Foreteller{"score_rank", "Rank by score", &RescuePrediction::score_rank},
    Foreteller{"drop_blame", "Predicted fall", &RescuePrediction::drop_blame},
};

/// A head whose effect was run.
struct Loss {
  RescuePrediction head;
  double fall = 0.0;  // of the answer's log-probability, nats
};

class CauseScatter final : public PanelFigure {
 public:
  RescueResults results;
  std::string model;
  std::vector<Loss> losses;

  /// `sizes`: without signs, because a loss that helps is an effect, too.
  CorrelationInterval correlation(const Foreteller& by, bool sizes) const {
    std::vector<double> x, y;
    for (const Loss& one : losses) {
      const double own = one.head.*by.value;
      if (!std::isfinite(own)) continue;
      x.push_back(sizes ? std::abs(own) : own);
      y.push_back(sizes ? std::abs(one.fall) : one.fall);
    }
    return spearman_interval(x, y);
  }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    for (std::size_t panel = 0; panel < kForetellers.size(); ++panel) {
      std::vector<Point> dots;
      std::vector<Target> targets;
      std::vector<std::pair<Point, std::string>> names;
      for (const Loss& one : losses) {
        const double x = one.head.*kForetellers[panel].value;
        if (!std::isfinite(x)) continue;
        dots.push_back({x, one.fall});
        targets.push_back({.layer = one.head.at.layer, .head = one.head.at.head});
        names.emplace_back(axes[panel].to_page(x, one.fall),
                           fmt::format("{}.{}", one.head.at.layer, one.head.at.head));
      }
      SeriesLook look{.colour = style.colours.evicted};
      add_dots(scene, style, axes[panel], dots, look, kDot, targets);
      add_dot_names(scene, style, axes[panel], std::move(names), kDot, false);
    }
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"layer", "head", "attention", "score_rank", "drop_blame", "fall"});
    for (const Loss& one : losses) {
      csv.row({one.head.at.layer, one.head.at.head, one.head.attention, one.head.score_rank,
               one.head.drop_blame, one.fall});
    }
  }

  std::string value_text(const Target& target) const override {
    for (const Loss& one : losses) {
      if (one.head.at.layer != target.layer || one.head.at.head != target.head) continue;
      const auto number = [](double value) {
        return std::isfinite(value) ? format_number(value) : std::string("not known");
      };
      return fmt::format("fall {} nats · attention {} · rank by score {} · predicted {}",
                         format_number(one.fall), number(one.head.attention),
                         number(one.head.score_rank), number(one.head.drop_blame));
    }
    return {};
  }

  std::string caption() const override {
    std::string text = fmt::format(
        "Leave-one-out: by how much the log-probability of the answer “{}”{} falls when the full "
        "cache drops {} token{} in one head alone ({} of {} heads were run; in all heads at once: "
        "{:.2f} nats). Below 0 the loss helps. Against a, the attention of the answer’s queries to "
        "these tokens with the full cache; b, their rank by the score of {} with {} entries, mean "
        "over the tokens (1: highest); c, {}. ρ: Spearman’s rank correlation over the heads, with "
        "its 95 % interval (Bonett and Wright 2000): ",
        printable(results.expected), model.empty() ? "" : " of " + model, results.tokens.size(),
        results.tokens.size() == 1 ? "" : "s", losses.size(), results.drop.heads.size(),
        -results.drop.all.gain, results.policy, results.budget, predicted_words());
    text +=
        correlations_text(false) + ". Of their sizes, without signs: " + correlations_text(true);
    return text + ". Named (layer.head): the highest dots, where there is room.";
  }

 private:
  std::string correlations_text(bool sizes) const {
    std::string text;
    for (std::size_t panel = 0; panel < kForetellers.size(); ++panel) {
      const CorrelationInterval found = correlation(kForetellers[panel], sizes);
      text += fmt::format("{}{}, {}", panel > 0 ? "; " : "", static_cast<char>('a' + panel),
                          correlation_text(found.rho));
      if (std::isfinite(found.low))
        text +=
            fmt::format(" ({} to {})", correlation_text(found.low), correlation_text(found.high));
    }
    return text;
  }
  const char* predicted_words() const {
    if (results.predicted_by == "logit")
      return "the fall of the expected tokens’ logits that a replay foretells, to first order";
    if (results.predicted_by == "change")
      return "the change of the residual stream at the answer that a replay foretells";
    return "the attention to these tokens";
  }

  PanelGrid grid(const DrawRequest& /*request*/) const override {
    ValueRange falls;
    falls.add(0.0);
    for (const Loss& one : losses) falls.add(one.fall);
    PanelGrid grid{.columns = static_cast<int>(kForetellers.size()),
                   .least_width = 60.0,
                   .aspect = 1.0,
                   .beside = 6.0};
    for (const Foreteller& by : kForetellers) {
      ValueRange values;
      for (const Loss& one : losses) values.add(one.head.*by.value);
      Panel panel;
      panel.title =
          fmt::format("ρ\u00A0=\u00A0{}, of sizes {}", correlation_text(correlation(by, false).rho),
                      correlation_text(correlation(by, true).rho));
      const bool logits =
          by.value == &RescuePrediction::drop_blame && results.predicted_by == "logit";
      panel.x = x_axis(by.axis + std::string(logits ? " (logits)" : ""), values.padded());
      panel.y = y_axis("Fall of log p (nats)", falls.padded());
      panel.y_grid = true;
      grid.panels.push_back(std::move(panel));
    }
    return grid;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  auto figure = std::make_unique<CauseScatter>();
  figure->results = *input.evaluation->rescue;
  figure->model = input.evaluation->model;
  for (const RescuePrediction& head : figure->results.predictions) {
    const RescueEffect& effect = figure->results.drop.heads[figure->results.index(head.at)];
    if (effect.is_known()) figure->losses.push_back({head, -effect.gain});
  }
  return figure;
}

/// Why a file has nothing to show here.
std::string unfit(const Evaluation& evaluation) {
  if (evaluation.task != Evaluation::Task::rescue)
    return "has no interventions; give results of kvloupe-capture rescue --leave-one-out";
  const RescueResults& results = *evaluation.rescue;
  const bool any = std::any_of(results.predictions.begin(), results.predictions.end(),
                               [&](const RescuePrediction& head) {
                                 return std::isfinite(head.attention) &&
                                        results.drop.heads[results.index(head.at)].is_known();
                               });
  if (any) return {};
  return "has no head that lost the tokens alone, or is of an earlier version; run "
         "kvloupe-capture rescue --leave-one-out again";
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = evaluation_figure(
      "cause-scatter", "Leave-one-out, head by head",
      "What a head's loss of the followed tokens does to the full cache's answer, against the "
      "attention to them, their rank by the policy's score, and the prediction of a replay",
      compute, kTwoColumns, 2.6, "rescue");
  info.unfit = unfit;
  return info;
}

}  // namespace kvloupe::figure::cause_scatter_figure
