// Whether a policy's scores foretell attention: each entry's score at a step beside the attention
// that came later.

#include <map>

#include "analysis/base/text/unknown.h"
#include "analysis/math/later_attention.h"
#include "analysis/math/numeric/statistics.h"
#include "analysis/math/rank_correlation.h"
#include "app/figure/figures/figures.h"
#include "app/figure/token_state.h"

namespace kvloupe::figure::score_vs_attention_figure {

namespace {

/// How entries are drawn, in the order of the legend; `over`: above those with less.
struct Shown {
  TokenState state;
  Colour Palette::*colour;
  MarkerShape shape;
  int over;
};
constexpr Shown kShown[] = {{TokenState::retained, &Palette::retained, MarkerShape::circle, 2},
                            {TokenState::protected_, &Palette::protected_, MarkerShape::square, 3},
                            {TokenState::evicted, &Palette::evicted, MarkerShape::circle, 0},
                            {TokenState::merged, &Palette::merged, MarkerShape::diamond, 1}};

struct Entry {
  int token = 0;
  double score = 0.0;
  double rank = 0.0;  // 1 is the lowest score; ties share theirs
  double later = 0.0;
  TokenState state = TokenState::retained;
};

/// The entries of one policy's cache at the step.
struct Scored {
  std::string policy;
  std::vector<Entry> entries;
  double correlation = kUnknown;       // of all
  double correlation_free = kUnknown;  // of those that nothing protects
  long free = 0;
};

TokenState state_of(Fate fate) {
  if (is_protection(fate)) return TokenState::protected_;
  switch (fate) {
    case Fate::evicted:
    case Fate::dropped:
      return TokenState::evicted;
    case Fate::merged:
      return TokenState::merged;
    default:
      return TokenState::retained;
  }
}

/// Mean over the query heads that count: [tokens].
std::vector<double> later_attention_of(const FigureInput& input, const LayerStates& states,
                                       std::span<const std::int32_t> tokens, int first_query,
                                       Progress& progress) {
  const Selection& s = input.selection;
  const Trace& trace = *input.trace;
  const int group = trace.layer_model(s.layer).group_size();
  const int first = s.query_head >= 0 ? s.query_head : s.head * group;
  const int count = s.query_head >= 0 ? 1 : group;
  std::vector<double> mean(tokens.size(), 0.0);
  for (int query_head = first; query_head < first + count; ++query_head) {
    const auto index = static_cast<std::size_t>(query_head);
    const std::vector<double> own = later_attention(
        view(states.queries[index]), view(states.keys[static_cast<std::size_t>(s.head)]),
        states.logsumexp[index], tokens, first_query, trace.attention(s.layer).of(query_head),
        trace.reach(s.layer), progress);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / count;
  }
  return mean;
}

Scored scored(const FigureInput& input, const Replay& replay, const LayerStates& states,
              Progress& progress) {
  const Selection& s = input.selection;
  const HeadReplay& head = head_of(replay, s.layer, s.head);
  const auto at = static_cast<std::size_t>(s.step);
  if (head.scores.size() <= at || head.scores[at].empty()) {
    throw WorkError(fmt::format(
        "{} gives no scores at step {}; choose {}", replay.policy, s.step,
        replay.acts_at(s.step) ? "a policy that has scores" : "a step at which it acts"));
  }
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, s.step);
  const bool judged = replay.blocks[at].end < input.trace->length();
  const std::vector<double> later =
      later_attention_of(input, states, tokens, replay.blocks[at].end, progress);
  Scored result;
  result.policy = replay.policy;
  std::vector<double> scores(head.scores[at].begin(), head.scores[at].end());
  const std::vector<double> ranks = ranks_of(scores);
  std::vector<double> free_scores, free_later;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Entry entry{tokens[i], scores[i], ranks[i], later[i], TokenState::retained};
    if (!head.fates[at].empty()) entry.state = state_of(head.fates[at][i]);
    if (entry.state != TokenState::protected_) {
      free_scores.push_back(scores[i]);
      free_later.push_back(later[i]);
    }
    result.entries.push_back(entry);
  }
  if (judged) {
    result.correlation = spearman(scores, later);
    result.correlation_free = spearman(free_scores, free_later);
  }
  result.free = std::ssize(free_scores);
  return result;
}

bool has(const Scored& one, TokenState state) {
  return std::any_of(one.entries.begin(), one.entries.end(),
                     [&](const Entry& entry) { return entry.state == state; });
}

std::string number(double correlation) {
  if (!std::isfinite(correlation)) return "unknown";
  return (correlation < 0 ? "−" : "") + fmt::format("{:.2f}", std::abs(correlation));
}

/// The rows, and what the pointer reads.
void write(LinePanels& figure, const std::vector<Scored>& policies, bool judged) {
  figure.add_row({"policy", "token", "score", "rank", "later_attention", "state", "correlation",
                  "correlation_unprotected"});
  std::map<int, double> later;  // of each token, said once
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const Scored& one = policies[p];
    for (const Entry& entry : one.entries) {
      figure.add_row({one.policy, entry.token, entry.score, entry.rank, entry.later,
                      state_name(entry.state), one.correlation, one.correlation_free});
      figure.say({.token = entry.token},
                 fmt::format("{}score {} (rank {} of {}), {}",
                             policies.size() > 1 ? fmt::format("{}: ", p == 0 ? 'A' : 'B') : "",
                             format_number(entry.score), format_number(entry.rank),
                             format_count(std::ssize(one.entries)), state_name(entry.state)),
                 "; ");
      later[entry.token] = entry.later;
    }
  }
  for (const auto& [token, attention] : later) {
    if (judged)
      figure.say({.token = token}, fmt::format("later attention {}", format_number(attention)));
  }
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const bool ranks = input.choice("scores") == "rank";
  const bool log_scale = input.choice("scale") == "log";
  const int later_queries =
      input.trace->length() - input.policy_a->blocks.at(static_cast<std::size_t>(s.step)).end;
  StateParts parts = StateParts::keys_only();
  parts.queries = parts.logsumexp = true;
  const auto states = input.replays->states().get(*input.trace, s.layer, parts, progress);
  std::vector<Scored> policies;
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (replay) policies.push_back(scored(input, *replay, *states, progress));
  }
  ValueRange later;
  for (const Scored& one : policies) {
    for (const Entry& entry : one.entries) {
      if (!log_scale || entry.later > 0.0) later.add(entry.later);
    }
  }
  auto figure = std::make_unique<LinePanels>();
  write(*figure, policies, later_queries > 0);
  std::string text = fmt::format(
      "Score of each entry at step {} and the mean attention that the {} later queries pay to it "
      "with the full cache, layer {}, {}, N = {}.",
      s.step, format_count(later_queries), s.layer,
      s.query_head >= 0 ? fmt::format("query head {}", s.query_head)
                        : fmt::format("head {}", s.head),
      format_count(input.policy_a->budget));
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const Scored& one = policies[p];
    LinePanels::Panel panel{.title = policies.size() > 1 ? one.policy : ""};
    for (const Shown& shown : kShown) {
      if (std::none_of(policies.begin(), policies.end(),
                       [&](const Scored& other) { return has(other, shown.state); }))
        continue;
      LinePanels::Dots dots{
          .name = state_name(shown.state), .colour = shown.colour, .shape = shown.shape};
      dots.filled = is_kept(shown.state);
      dots.size = one.entries.size() > 400 ? 2.0 : 3.2;
      dots.over = shown.over;
      for (const Entry& entry : one.entries) {
        if (entry.state != shown.state) continue;
        dots.points.push_back({ranks ? entry.rank : entry.score, entry.later});
        dots.tokens.push_back(entry.token);
      }
      panel.dots.push_back(std::move(dots));
    }
    ValueRange scores;
    for (const Entry& entry : one.entries) scores.add(ranks ? entry.rank : entry.score);
    panel.x = x_axis(ranks ? "Rank of the score" : "Score", scores.padded());
    panel.y = log_scale ? y_axis("Later attention", later.padded_log(), AxisScale::log)
                        : y_axis("Later attention", later.from_zero());
    if (p == 0 && later_queries == 0) panel.note = "No query comes later";
    figure->panels.push_back(std::move(panel));
    text +=
        fmt::format(" {}{}: Spearman’s ρ {} over all {} entries, {} over the {} unprotected ones.",
                    policies.size() > 1 ? fmt::format("{}, ", static_cast<char>('a' + p)) : "",
                    one.policy, number(one.correlation), format_count(std::ssize(one.entries)),
                    number(one.correlation_free), format_count(one.free));
    const long unread = std::count_if(one.entries.begin(), one.entries.end(),
                                      [](const Entry& entry) { return !(entry.later > 0.0); });
    if (log_scale && unread > 0) {
      text += fmt::format(" {} entries without later attention cannot be drawn on a log axis.",
                          format_count(unread));
    }
  }
  figure->caption_text =
      later_queries > 0
          ? text
          : fmt::format(
                "No query comes after step {}, so there is no later attention to compare "
                "with the scores. Choose an earlier step.",
                s.step);
  figure->legend = true;
  figure->least_width = 100.0;
  figure->aspect = 1.25;
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "score-vs-attention", "Scores and later attention",
      "Each entry of the cache before the step's eviction: the policy's score, and the mean of "
      "A[q,i] over all queries q after the step, with the full cache, mean over the head's query "
      "heads. A policy that foretells attention has Spearman's rank correlation ρ = 1; equal "
      "values share their rank. As a map of all heads: overview, score_attention_correlation",
      Topic::attention, compute, kColumn, 1.3);
  info.needs = {.head = true, .step = true, .policy = true, .scores = true, .beside = true};
  info.choices = {
      word_choice("scores", "Scores", "The ranks of the scores, or the scores themselves",
                  {"rank", "value"}),
      word_choice("scale", "Scale", "Scale of the attention's axis", {"log", "linear"})};
  info.unavailable = without_full_cache;
  return info;
}

}  // namespace kvloupe::figure::score_vs_attention_figure
