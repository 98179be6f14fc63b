// The effect of a head's loss of some tokens on the full cache's answer, against possible
// predictors: attention, the policy's score, and the replay's first-order number. Every dot is a
// head. The data are results of kvloupe-capture rescue.

#include <array>

#include "analysis/math/rank_correlation.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/head_scatter.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/printable.h"

namespace kvloupe::figure::cause_scatter_figure {

namespace {

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

/// `sizes`: without signs, because a loss that helps is an effect, too.
CorrelationInterval correlation(const std::vector<Loss>& losses, const Foreteller& by, bool sizes) {
  std::vector<double> x, y;
  for (const Loss& one : losses) {
    const double own = one.head.*by.value;
    if (!std::isfinite(own)) continue;
    x.push_back(sizes ? std::abs(own) : own);
    y.push_back(sizes ? std::abs(one.fall) : one.fall);
  }
  return spearman_interval(x, y);
}

std::string correlations_text(const std::vector<Loss>& losses, bool sizes) {
  std::string text;
  for (const Foreteller& by : kForetellers) {
    const CorrelationInterval found = correlation(losses, by, sizes);
    text += fmt::format("{}{}, {}", text.empty() ? "" : "; ",
                        static_cast<char>('a' + (&by - kForetellers.data())),
                        correlation_text(found.rho));
    if (std::isfinite(found.low))
      text += fmt::format(" ({} to {})", correlation_text(found.low), correlation_text(found.high));
  }
  return text;
}

const char* predicted_words(const std::string& by) {
  if (by == "logit")
    return "the fall of the expected tokens’ logits that a replay foretells, to first order";
  return by == "change" ? "the change of the residual stream at the answer that a replay foretells"
                        : "the attention to these tokens";
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  auto figure = std::make_unique<HeadScatter>();
  const RescueResults& results = *input.evaluation->rescue;
  const std::string& model = input.evaluation->model;
  std::vector<Loss> losses;
  ValueRange falls;
  falls.add(0.0);
  figure->add_row({"layer", "head", "attention", "score_rank", "drop_blame", "fall"});
  for (const RescuePrediction& head : results.predictions) {
    const RescueEffect& effect = results.drop.heads[results.index(head.at)];
    if (!effect.is_known()) continue;
    losses.push_back({head, -effect.gain});
    const double fall = losses.back().fall;
    falls.add(fall);
    figure->add_row(
        {head.at.layer, head.at.head, head.attention, head.score_rank, head.drop_blame, fall});
    const auto number = [](double value) {
      return std::isfinite(value) ? format_number(value) : std::string("not known");
    };
    figure->say({.layer = head.at.layer, .head = head.at.head},
                fmt::format("fall {} nats · attention {} · rank by score {} · predicted {}",
                            format_number(fall), number(head.attention), number(head.score_rank),
                            number(head.drop_blame)));
  }
  for (const Foreteller& by : kForetellers) {
    HeadScatter::Panel& panel = figure->panels.emplace_back();
    ValueRange values;
    for (const Loss& one : losses) {
      values.add(one.head.*by.value);
      panel.dots.push_back({one.head.at.layer, one.head.at.head, one.head.*by.value, one.fall});
    }
    panel.title = fmt::format("ρ\u00A0=\u00A0{}, of sizes {}",
                              correlation_text(correlation(losses, by, false).rho),
                              correlation_text(correlation(losses, by, true).rho));
    const bool logits =
        by.value == &RescuePrediction::drop_blame && results.predicted_by == "logit";
    panel.x = x_axis(by.axis + std::string(logits ? " (logits)" : ""), values.padded());
    panel.y = y_axis("Fall of log p (nats)", falls.padded());
  }
  figure->x_log = figure->y_log = false;
  figure->shape = {.columns = 3, .least_width = 60.0, .aspect = 1.0, .beside = 6.0};
  figure->of_evicted = figure->whole_caption = true;
  figure->size = 3.2;
  figure->caption_text = fmt::format(
      "Leave-one-out: by how much the log-probability of the answer “{}”{} falls when the full "
      "cache drops {} token{} in one head alone ({} of {} heads were run; in all heads at once: "
      "{:.2f} nats). Below 0 the loss helps. Against a, the attention of the answer’s queries to "
      "these tokens with the full cache; b, their rank by the score of {} with {} entries, mean "
      "over the tokens (1: highest); c, {}. ρ: Spearman’s rank correlation over the heads, with "
      "its 95 % interval (Bonett and Wright 2000): {}. Of their sizes, without signs: {}. Named "
      "(layer.head): the highest dots, where there is room.",
      printable(results.expected), model.empty() ? "" : " of " + model, results.tokens.size(),
      results.tokens.size() == 1 ? "" : "s", losses.size(), results.drop.heads.size(),
      -results.drop.all.gain, results.policy, results.budget, predicted_words(results.predicted_by),
      correlations_text(losses, false), correlations_text(losses, true));
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
