#include "analysis/replay/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
StepReason reason_at(const Replay& replay, const HeadReplay& head, int token, int step) {
  const auto index = static_cast<std::size_t>(step);
  const StepRecord& record = head.steps[index];
  StepReason reason;
  reason.step = step;
  reason.cache_size = record.cache_size;
  reason.retained = record.retained;
  reason.decided = record.retained < record.cache_size;
  reason.ties = record.ties;
  if (token < replay.first_token(head, step)) {
    reason.fate = Fate::beyond_window;
    return reason;
  }
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, step);
  const auto row = static_cast<std::size_t>(std::lower_bound(tokens.begin(), tokens.end(), token) -
                                            tokens.begin());
  const std::vector<float>& scores = head.scores[index];
  if (!scores.empty()) {
    reason.score = static_cast<double>(scores[row]);
    reason.rank = score_rank(scores, row);
  }
  if (!reason.decided) return reason;
  if (!head.fates[index].empty()) {
    reason.fate = head.fates[index][row];
  } else if (head.evicted_at[static_cast<std::size_t>(token)] == step) {
    reason.fate = Fate::evicted;
  }
  reason.threshold = static_cast<double>(record.threshold);
  reason.margin = reason.score - reason.threshold;
  for (const Merge& merge : replay.merges_at(head, step)) {
    if (std::find(merge.from.begin(), merge.from.end(), token) != merge.from.end()) {
      reason.merges.push_back(merge);
    }
  }
  for (const Refit& refit : record.refits) {
    if (refit.token == token) reason.refit = refit;
  }
  return reason;
}

/// Three significant digits, or all before the point of a number that counts tokens; with a real
/// minus.
std::string digits(double value) {
  const double size = std::abs(value);
  std::string text = fmt::format("{:.{}g}", value, size >= 1000.0 && size < 1e6 ? 6 : 3);
  for (std::size_t at = text.find('-'); at != std::string::npos; at = text.find('-', at))
    text.replace(at, 1, "−");
  return text;
}

std::string ranked(const StepReason& reason) {
  if (reason.rank == 0) return "";
  std::string text =
      fmt::format("score {}, rank {} of {}", digits(reason.score), reason.rank, reason.cache_size);
  if (!std::isnan(reason.margin)) {
    text +=
        fmt::format(", threshold {}, margin {}", digits(reason.threshold), digits(reason.margin));
    if (reason.margin == 0.0 && reason.ties > 1) {
      text += fmt::format(", one of {} ties: later tokens are kept", reason.ties);
    }
  }
  return text;
}

/// "0 (0.25), 1 (0.5)": tokens and weights, the first of many.
std::string weighted(const std::vector<std::pair<int, float>>& tokens) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(tokens.size(), kShown); ++i) {
    text += fmt::format("{}{} ({:.3g})", i > 0 ? ", " : "", tokens[i].first,
                        static_cast<double>(tokens[i].second));
  }
  if (tokens.size() > kShown) text += fmt::format(" and {} more", tokens.size() - kShown);
  return text;
}

/// The sets a token is in: whole sets whose weights sum to 1, or values given on top of an entry's
/// own, whose weight is then 1.
std::string merges_text(int token, const std::vector<Merge>& merges) {
  std::vector<std::pair<int, float>> given, taken;
  std::string text;
  for (const Merge& merge : merges) {
    std::vector<std::pair<int, float>> members;
    float own = 0.0F, of_pivot = 0.0F;
    for (std::size_t i = 0; i < merge.from.size(); ++i) {
      members.emplace_back(merge.from[i], merge.weights[i]);
      if (merge.from[i] == token) own = merge.weights[i];
      if (merge.from[i] == merge.into) of_pivot = merge.weights[i];
    }
    if (of_pivot < 1.0F) {
      text += fmt::format("; set into {}: {}", merge.into, weighted(members));
    } else if (merge.into != token) {
      given.emplace_back(merge.into, own);
    } else {
      std::erase_if(members, [&](const auto& member) { return member.first == token; });
      taken = members;
    }
  }
  if (!given.empty()) text += "; its value is given to " + weighted(given);
  if (!taken.empty()) text += "; it receives the values of " + weighted(taken);
  return text;
}

std::string refit_text(const std::optional<Refit>& refit) {
  if (!refit) return "";
  const double bias = static_cast<double>(refit->log_bias);
  std::string text = fmt::format("; now synthetic: log-bias {}{}, as of {} entries",
                                 bias < 0.0 ? "" : "+", digits(bias), digits(std::exp(bias)));
  if (refit->value_change > 0.0F) {
    text += fmt::format("; its value was refitted: {:.3g} of its length away",
                        static_cast<double>(refit->value_change));
  }
  return text;
}
}  // namespace

TokenExplanation explain(const Replay& replay, const HeadReplay& head, int token) {
  const int count = static_cast<int>(head.evicted_at.size());
  if (token < 0 || token >= count) {
    throw UsageError("token " + std::to_string(token) + ": the trace has tokens 0 to " +
                     std::to_string(count - 1));
  }
  if (head.scores.size() != head.steps.size() || head.fates.size() != head.steps.size()) {
    throw std::invalid_argument("explain: this head was replayed without its scores");
  }
  TokenExplanation result;
  result.token = token;
  while (replay.blocks[static_cast<std::size_t>(result.entered)].end <= token) ++result.entered;
  result.left = head.evicted_at[static_cast<std::size_t>(token)];
  const int last = result.left >= 0 ? result.left : static_cast<int>(head.steps.size()) - 1;
  for (int step = result.entered; step <= last; ++step) {
    result.steps.push_back(reason_at(replay, head, token, step));
  }
  return result;
}

const char* leaving_text(Fate fate) {
  return fate == Fate::merged          ? "merged"
         : fate == Fate::beyond_window ? "left the model's window"
         : fate == Fate::dropped       ? "dropped"
                                       : "evicted";
}

std::string reason_text(const TokenExplanation& explanation, const StepReason& reason) {
  if (reason.fate == Fate::beyond_window) {
    return "left the model's sliding window: no later query sees it";
  }
  const std::string numbers = ranked(reason);
  const auto with = [&](const std::string& what) {
    return numbers.empty() ? what : what + ": " + numbers;
  };
  if (!reason.decided) {
    return with(fmt::format("kept, no eviction at this step ({} entries)", reason.cache_size));
  }
  std::string text;
  switch (reason.fate) {
    case Fate::evicted:
      text = with("evicted");
      break;
    case Fate::by_score:
      text = with(std::isnan(reason.threshold) && reason.rank > 0 ? "kept, merging was enough"
                                                                  : "kept by its score");
      break;
    case Fate::by_second_stage:
      text = with("kept by the second stage of the selection");
      break;
    case Fate::recent:
      text = with("kept, protected as recent");
      break;
    case Fate::sink:
      text = with("kept, protected as one of the first tokens");
      break;
    case Fate::window:
      text = with("kept, in the window that the score protects");
      break;
    case Fate::merged:
      text = with("merged into other entries");
      break;
    case Fate::held:
      text = with("kept, protected by keep, protect_prompt or boundaries");
      break;
    case Fate::dropped:
      text = with("evicted, named by drop");
      break;
    case Fate::beyond_window:
      break;  // said above
  }
  return text + merges_text(explanation.token, reason.merges) + refit_text(reason.refit);
}

}  // namespace kvloupe
