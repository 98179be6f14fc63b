#include "analysis/replay/record/records.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvloupe {

int score_rank(const std::vector<float>& scores, std::size_t row) {
  int rank = 0;
  for (std::size_t other = 0; other < scores.size(); ++other) {
    if (scores[other] > scores[row] || (scores[other] == scores[row] && other >= row)) ++rank;
  }
  return rank;
}

std::vector<std::size_t> by_score(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a > b;
  });
  return order;
}

const HeadReplay* Replay::find(int layer, int head) const {
  for (const HeadReplay& candidate : heads) {
    if (candidate.layer == layer && candidate.head == head) return &candidate;
  }
  return nullptr;
}

namespace {
/// Tokens [first, end) that have not left by that step.
std::vector<std::int32_t> alive(const HeadReplay& head, int first, int end, int evicted_after) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = first; token < end; ++token) {
    const std::int32_t step = head.evicted_at[static_cast<std::size_t>(token)];
    if (step < 0 || step > evicted_after) tokens.push_back(token);
  }
  return tokens;
}
}  // namespace

std::vector<std::int32_t> Replay::tokens_at(const HeadReplay& head, int step) const {
  return alive(head, first_token(head, step), blocks.at(static_cast<std::size_t>(step)).end,
               step - 1);
}

std::vector<std::int32_t> Replay::retained_at(const HeadReplay& head, int step) const {
  return alive(head, first_token(head, step), blocks.at(static_cast<std::size_t>(step)).end, step);
}

std::vector<std::int32_t> Replay::seen_at(const HeadReplay& head, int step) const {
  std::vector<std::int32_t> tokens = retained_at(head, step);
  const int oldest = first_seen(blocks.at(static_cast<std::size_t>(step)).end - 1, head.reach);
  // They leave with this step unless an earlier one evicted them.
  std::vector<std::int32_t> leaving;
  for (int token = oldest; token < first_token(head, step); ++token) {
    if (head.evicted_at[static_cast<std::size_t>(token)] == step) leaving.push_back(token);
  }
  tokens.insert(tokens.begin(), leaving.begin(), leaving.end());
  return tokens;
}

int Replay::first_token(const HeadReplay& head, int step) const {
  return first_seen(blocks.at(static_cast<std::size_t>(step)).end, head.reach);
}

bool Replay::acts_at(int step) const {
  return blocks.at(static_cast<std::size_t>(step)).end <= acts_until;
}

bool Replay::left_unseen(const HeadReplay& head, int token) const {
  const std::int32_t left = head.evicted_at.at(static_cast<std::size_t>(token));
  return left >= 0 && token < first_token(head, left);
}

std::vector<Merge> Replay::merges_at(const HeadReplay& head, int step) const {
  const StepRecord& record = head.steps.at(static_cast<std::size_t>(step));
  std::vector<Merge> merges = record.merges;
  if (record.gifts.empty()) return merges;
  const std::vector<std::int32_t> retained = retained_at(head, step);
  std::vector<Merge> given(retained.size());
  for (const Gift& gift : record.gifts) {
    const auto first = std::upper_bound(retained.begin(), retained.end(), gift.from);
    for (std::int32_t heir = 0; heir < gift.heirs; ++heir) {
      Merge& merge = given[static_cast<std::size_t>(first - retained.begin() + heir)];
      merge.from.push_back(gift.from);
      merge.weights.push_back(gift.weight);
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].from.empty()) continue;
    given[i].into = retained[i];
    given[i].from.push_back(retained[i]);  // later than all it was given
    given[i].weights.push_back(1.0F);
    merges.push_back(std::move(given[i]));
  }
  return merges;
}

}  // namespace kvloupe
