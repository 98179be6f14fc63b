#include "analysis/replay/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "analysis/error.h"

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
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, step);
  const auto row = static_cast<std::size_t>(std::lower_bound(tokens.begin(), tokens.end(), token) -
                                            tokens.begin());
  const std::vector<float>& scores = head.scores[index];
  if (!scores.empty()) {
    reason.score = static_cast<double>(scores[row]);
    for (std::size_t other = 0; other < scores.size(); ++other) {
      if (scores[other] > scores[row] || (scores[other] == scores[row] && other >= row)) {
        ++reason.rank;
      }
    }
  }
  if (!reason.decided) return reason;
  if (!head.fates[index].empty()) {
    reason.fate = head.fates[index][row];
  } else if (head.evicted_at[static_cast<std::size_t>(token)] == step) {
    reason.fate = Fate::evicted;
  }
  reason.threshold = static_cast<double>(record.threshold);
  reason.margin = reason.score - reason.threshold;
  for (const Merge& merge : record.merges) {
    if (std::find(merge.from.begin(), merge.from.end(), token) != merge.from.end()) {
      reason.merges.push_back(merge);
    }
  }
  return reason;
}

std::string ranked(const StepReason& reason) {
  if (reason.rank == 0) return "";
  std::string text =
      fmt::format("score {:.6g}, rank {} of {}", reason.score, reason.rank, reason.cache_size);
  if (!std::isnan(reason.margin)) {
    text += fmt::format(", threshold {:.6g}, margin {:.3g}", reason.threshold, reason.margin);
    if (reason.margin == 0.0 && reason.ties > 1) {
      text += fmt::format(", one of {} ties: the later are kept", reason.ties);
    }
  }
  return text;
}

std::string set_text(const Merge& merge) {
  std::string members;
  for (std::size_t i = 0; i < merge.from.size(); ++i) {
    members += fmt::format("{}{} ({:.3g})", i > 0 ? ", " : "", merge.from[i],
                           static_cast<double>(merge.weights[i]));
  }
  return fmt::format("; set into {}: {}", merge.into, members);
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

std::string reason_text(const TokenExplanation& explanation, const StepReason& reason) {
  const std::string numbers = ranked(reason);
  const auto with = [&](const std::string& what) {
    return numbers.empty() ? what : what + ": " + numbers;
  };
  if (!reason.decided) {
    return with(fmt::format("kept, nothing leaves ({} entries)", reason.cache_size));
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
      text = with("kept, in the window the score protects");
      break;
    case Fate::merged:
      text = with("merged into others");
      break;
  }
  for (const Merge& merge : reason.merges) {
    // Of a value that many were given, only what this entry gave or got matters.
    if (reason.fate == Fate::merged || merge.into == explanation.token) text += set_text(merge);
  }
  return text;
}

}  // namespace kvloupe
