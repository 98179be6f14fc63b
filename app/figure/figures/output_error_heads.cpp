// The output error of every head beside how its attention is spread: over few tokens or many, and
// how much of it rests on the sink.

#include <map>
#include <utility>

#include "analysis/math/sink.h"
#include "analysis/policy/published.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/head_scatter.h"

namespace kvloupe::figure::output_error_heads_figure {

namespace {

/// A number of the full cache for each head: [layer, head].
using OfHeads = std::map<std::pair<int, int>, double>;

/// Mean over the head's query heads.
OfHeads sink_of_heads(const FigureInput& input, Progress& progress) {
  const Matrix strengths = sink_strengths(*input.trace, 0, progress);
  OfHeads values;
  for (int l = 0; l < input.trace->model().num_layers; ++l) {
    const ModelInfo& model = input.trace->layer_model(l);
    const int group = model.group_size();
    for (int h = 0; h < model.num_kv_heads; ++h) {
      values[{l, h}] = strengths.row(l).segment(h * group, group).cast<double>().mean();
    }
  }
  return values;
}

OfHeads spread_of_heads(const FigureInput& input, Progress& progress) {
  ReadsRequest request{.tokens = {0}, .effective_tokens = true, .states = &input.replays->states()};
  OfHeads values;
  for (const TokenReads& head : token_reads(*input.trace, request, progress))
    values[{head.layer, head.head}] = head.effective_tokens;
  return values;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const bool by_sink = input.choice("against") == "sink-strength";
  const bool later = input.choice("queries") == "later";
  WantedReplay like;
  if (!later) like = {.measures = {"output_error"}, .summary = true};
  const auto replays = replays_of(input, for_each_policy(chosen_policies(input), like), progress,
                                  later ? 2 * kReplaySteps : kReplaySteps);
  std::vector<AskedReplay> answers;
  if (later) answers = asked_of(input, replays, progress);
  Progress of_trace(progress, kReplaySteps);
  const OfHeads spread =
      by_sink ? sink_of_heads(input, of_trace) : spread_of_heads(input, of_trace);
  of_trace.finish();
  auto figure = std::make_unique<HeadScatter>();
  const Measure& error = require_measure("output_error");
  for (std::size_t r = 0; r < replays.size(); ++r) {
    HeadScatter::Panel panel;
    panel.policy = replays[r]->policy;
    for (std::size_t h = 0; h < replays[r]->heads.size(); ++h) {
      const HeadReplay& head = replays[r]->heads[h];
      panel.dots.push_back({head.layer, head.head, spread.at({head.layer, head.head}),
                            later ? answers[r].heads[h].output_error : measure_of(error, head)});
    }
    figure->panels.push_back(std::move(panel));
  }
  figure->x_log = !by_sink;
  figure->x_label = by_sink ? "Sink strength of token 0" : "Effective tokens";
  figure->x_name = by_sink ? "sink strength" : "effective tokens";
  figure->x_measure = by_sink ? "sink_strength" : "effective_tokens";
  figure->y_label = "Output error";
  figure->y_name = "output error";
  figure->y_measure = later ? asked_measure(*input.trace, "output_error") : "output_error";
  figure->caption_text = fmt::format(
      "Output error Σ‖o − o′‖² / Σ‖o‖² of every head {}, against {} with the full cache; "
      "means over the head’s query heads, N = {}.",
      later ? asked_text(*input.trace) + ", each with the entries in the cache when it comes"
            : "for the last queries of all steps from the first eviction on",
      by_sink ? "its sink strength, the mean attention of later queries to token 0,"
              : "its effective tokens, the number of tokens over which it spreads its attention "
                "(exp of the entropy),",
      format_count(replays.front()->budget));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "output-error-heads", "Output error and spread of attention",
      "Each head: its output error Σ‖o − o′‖² / Σ‖o‖² under the policy, and its effective tokens "
      "exp(H(A)) or its sink strength (the mean of A[q,0]) with the full cache. Do heads that look "
      "at many tokens lose more? Effective tokens take some seconds: they need the attention of "
      "all queries",
      Topic::values, compute, kTwoColumns, 2.2);
  info.needs.comparison = true;
  info.choices = {
      word_choice("against", "Against",
                  "Effective tokens, or the sink strength of token 0, with the full cache",
                  {"effective-tokens", "sink-strength"}),
      word_choice("queries", "Error of",
                  "The output of the answer's queries (else the question's, else all later "
                  "ones), or of the last query of every step",
                  {"later", "steps"}),
      policies_choice(published_list({"A", "B", "snapkv"}))};
  info.unavailable = without_full_cache;
  return info;
}

}  // namespace kvloupe::figure::output_error_heads_figure
