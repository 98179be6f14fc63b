// Who reads a segment with the full cache, and who of them still has it.

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/policy/kit/spec.h"
#include "analysis/replay/follow.h"
#include "app/lesson/answer.h"
#include "app/lesson/value_groups.h"

namespace kvloupe::lesson {

namespace {

std::vector<int> tokens_of(const LessonState& s, const std::string& segment) {
  const auto [first, last] = segment_of(s.trace->tokens(), segment);
  std::vector<int> tokens;
  for (int token = first; first >= 0 && token <= last; ++token) tokens.push_back(token);
  return tokens;
}

/// The n-th head of those that read the segment, 1 the one that reads most; none where fewer heads
/// have queries after it.
std::optional<TokenReads> reader(const LessonState& s, const std::string& segment,
                                 const Value& rank, Progress& progress) {
  const std::vector<int> tokens = tokens_of(s, segment);
  if (tokens.empty()) return std::nullopt;
  Progress part(progress, 0);
  std::vector<TokenReads> heads = *s.store->replays().reads(*s.trace, tokens, false, part);
  std::erase_if(heads, [](const TokenReads& head) { return std::isnan(head.read); });
  std::stable_sort(heads.begin(), heads.end(),
                   [](const TokenReads& a, const TokenReads& b) { return a.read > b.read; });
  const double at = number(rank);
  if (!(at >= 1.0 && at <= static_cast<double>(heads.size()))) return std::nullopt;
  return heads[static_cast<std::size_t>(at) - 1];
}

/// Share of the segment's tokens read so far that policy A keeps in that head.
double kept_there(const LessonState& s, const std::string& segment, const Value& rank,
                  Progress& progress) {
  const auto found = reader(s, segment, rank, progress);
  if (!found) return kNone;
  ReplayRequest request{.policy = s.workspace.policy_a,
                        .budget = s.workspace.budget.resolve(s.trace->run().prompt_length),
                        .block = s.workspace.block,
                        .compression = s.workspace.compression,
                        .metrics = false};
  Progress part(progress, 0);
  const auto replay = s.store->replays().get(*s.trace, request, part);
  const HeadReplay* head = replay->find(found->layer, found->head);
  if (head == nullptr) return kNone;
  const TokenFate fate = token_fate(*replay, *head, tokens_of(s, segment));
  return fate.share.at(static_cast<std::size_t>(step_of(s, replay->blocks)));
}

/// The catalogue's function from one of the reader.
template <typename Function>
constexpr auto of_reader(Function) {
  return computed([](In s, Arguments a, Progress& p) {
    const auto found = reader(s, word(a[0]), a[1], p);
    return found ? static_cast<double>(Function{}(*found)) : kNone;
  });
}

}  // namespace

ValueGroup reader_values() {
  ValueGroup group{"Readers of a segment", {}};
  const auto add = [&](ValueInfo info) { group.values.push_back(std::move(info)); };
  const std::vector<std::pair<Argument, std::string>> arguments = {{Argument::segment, "segment"},
                                                                   {Argument::number, "rank"}};
  add({.name = "reader_layer",
       .arguments = arguments,
       .meaning =
           "layer of the head that gives the segment's first piece the most attention (rank 1; 2 "
           "the next): mean over the queries of the answer, else of the question, or all later "
           "ones without both, and over its query heads",
       .needs = "the segment, and tokens after it",
       .compute = of_reader([](const TokenReads& head) { return head.layer; })});
  add({.name = "reader_head",
       .arguments = arguments,
       .meaning = "its head in that layer",
       .needs = "the segment, and tokens after it",
       .compute = of_reader([](const TokenReads& head) { return head.head; })});
  add({.name = "reader_share",
       .arguments = arguments,
       .meaning = "the attention that it gives to the segment",
       .needs = "the segment, and tokens after it",
       .compute = of_reader([](const TokenReads& head) { return head.read; })});
  add({.name = "reader_kept",
       .arguments = arguments,
       .meaning = "share of the segment's tokens that policy A keeps there",
       .needs = "the segment, and tokens after it",
       .compute = computed(
           [](In s, Arguments a, Progress& p) { return kept_there(s, word(a[0]), a[1], p); })});
  return group;
}

}  // namespace kvloupe::lesson
