#include "capture/eval/rescue_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/unknown.h"
#include "analysis/math/rank_correlation.h"
#include "analysis/math/sink.h"
#include "analysis/replay/explain.h"
#include "analysis/replay/follow_json.h"
#include "analysis/replay/replay.h"
#include "capture/run/capture.h"

namespace kvloupe {

namespace {
std::vector<HeadIndex> in_order(std::vector<HeadIndex> heads) {
  std::sort(heads.begin(), heads.end(), [](const HeadIndex& a, const HeadIndex& b) {
    return std::pair(a.layer, a.head) < std::pair(b.layer, b.head);
  });
  return heads;
}

/// The tokens kept beside the policy, or dropped from the full cache.
struct SearchedSide {
  RescueSide& found;
  bool wanted;                       // keep: the answer right; drop: wrong
  RescueOutcome base;                // without
  const std::vector<double>& blame;  // [L · Hk]
  std::function<std::string(const std::vector<HeadIndex>&)> spec;  // in these heads; none: in all

  bool turned() const { return base.right != wanted && found.all.right == wanted; }
};

class RescueSearch {
 public:
  RescueSearch(RescueRuns& runs, SearchedSide keep, SearchedSide drop)
      : runs_(runs), keep_(std::move(keep)), drop_(std::move(drop)) {}

  /// Whether it stopped: there is no set to be found.
  bool run(const std::vector<HeadIndex>& named) {
    for (SearchedSide* side : {&keep_, &drop_}) test(*side, {}, side->found.all);
    if (runs_.request().leave_one_out) {
      for (const HeadIndex& head : runs_.all_heads()) test_head(drop_, head);
      return false;
    }
    for (const HeadIndex& head : named) {
      for (SearchedSide* side : {&keep_, &drop_}) test_head(*side, head);
    }
    const bool stops = !keep_.turned() && !runs_.request().all && runs_.request().most_runs != 0;
    if (!stops) search();
    return stops;
  }

 private:
  void search() {
    if (runs_.exhaustive()) {
      for (SearchedSide* side : {&keep_, &drop_}) {
        for (int layer = 0; layer < runs_.layers(); ++layer) test_layer(*side, layer);
        for (const HeadIndex& head : runs_.all_heads()) test_head(*side, head);
      }
      for (SearchedSide* side : {&keep_, &drop_}) {
        if (side->turned()) find_smallest(*side);
      }
      return;
    }
    // The set that restores the answer is the one that is asked for: it has the first call.
    if (keep_.turned()) find_smallest(keep_);
    if (drop_.turned()) find_smallest(drop_);
    for (SearchedSide* side : {&keep_, &drop_}) {
      if (!side->found.smallest) continue;
      for (const HeadIndex& head : *side->found.smallest) test_layer(*side, head.layer);
      for (const HeadIndex& head : *side->found.smallest) test_head(*side, head);
    }
    // Each side's heads by falling blame, two that are kept for one that is dropped.
    const std::vector<HeadIndex> kept = by_blame(keep_, runs_.all_heads());
    const std::vector<HeadIndex> dropped = by_blame(drop_, runs_.all_heads());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      test_head(keep_, kept[i]);
      if (i % 2 == 1) test_head(drop_, dropped[i / 2]);
    }
    for (std::size_t i = kept.size() / 2; i < dropped.size(); ++i) test_head(drop_, dropped[i]);
  }

  std::size_t index(const HeadIndex& head) const {
    return static_cast<std::size_t>(head.layer * runs_.heads() + head.head);
  }

  void test(const SearchedSide& side, const std::vector<HeadIndex>& heads, RescueEffect& effect) {
    const RescueOutcome outcome = runs_.outcome(side.spec(heads));
    effect = {effect.at, outcome.right, outcome.logprob, outcome.logprob - side.base.logprob};
  }
  /// One place alone, unless it is known or no further run may be made.
  void test_alone(const SearchedSide& side, const std::vector<HeadIndex>& heads,
                  RescueEffect& effect) {
    if (!effect.is_known() && runs_.may_ask(side.spec(heads))) test(side, heads, effect);
  }
  void test_layer(SearchedSide& side, int layer) {
    test_alone(side, runs_.heads_of_layer(layer),
               side.found.layers[static_cast<std::size_t>(layer)]);
  }
  void test_head(SearchedSide& side, const HeadIndex& head) {
    test_alone(side, {head}, side.found.heads[index(head)]);
  }

  /// By falling blame; of equals, those that stand first.
  std::vector<HeadIndex> by_blame(const SearchedSide& side, std::vector<HeadIndex> heads) const {
    const auto blame = [&](const HeadIndex& head) {
      const double known = side.blame[index(head)];
      return std::isfinite(known) ? known : 0.0;
    };
    std::stable_sort(heads.begin(), heads.end(),
                     [&](const HeadIndex& a, const HeadIndex& b) { return blame(a) > blame(b); });
    return heads;
  }

  /// If every head was run alone, those of the largest effect are tried first; else layers come
  /// first, then the heads of those that are needed, both by falling blame.
  void find_smallest(SearchedSide& side) {
    std::vector<std::vector<HeadIndex>> parts;
    if (runs_.exhaustive()) {
      std::vector<std::pair<double, HeadIndex>> by_effect;
      for (const HeadIndex& head : runs_.all_heads()) {
        by_effect.emplace_back(
            std::abs(runs_.outcome(side.spec({head})).logprob - side.base.logprob), head);
      }
      // Among equals the last first, so that the first are left out first.
      std::stable_sort(by_effect.begin(), by_effect.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (auto one = by_effect.rbegin(); one != by_effect.rend(); ++one)
        parts.push_back({one->second});
    } else {
      for (const HeadIndex& head : by_blame(side, runs_.all_heads())) {
        const auto is_layer = [&](const auto& part) { return part.front().layer == head.layer; };
        if (std::none_of(parts.begin(), parts.end(), is_layer))
          parts.push_back(runs_.heads_of_layer(head.layer));
      }
      const auto [heads, minimal] = smallest_of(side, parts);
      parts.clear();
      for (const HeadIndex& head : by_blame(side, heads)) parts.push_back({head});
    }
    auto [heads, minimal] = smallest_of(side, parts);
    side.found.smallest = std::move(heads);
    side.found.minimal = minimal;
  }

  /// Parts that matter most first: the heads of a set of them that turns the answer,
  /// ascending, and whether none can be left out.
  std::pair<std::vector<HeadIndex>, bool> smallest_of(
      SearchedSide& side, const std::vector<std::vector<HeadIndex>>& parts) {
    const auto heads_in = [&](const std::vector<int>& set) {
      std::vector<HeadIndex> heads;
      for (const int part : set) {
        const auto& own = parts[static_cast<std::size_t>(part)];
        heads.insert(heads.end(), own.begin(), own.end());
      }
      return in_order(std::move(heads));
    };
    std::vector<int> order(parts.size());
    std::iota(order.begin(), order.end(), 0);
    const EnoughSet found =
        smallest_set(order, [&](const std::vector<int>& set) -> std::optional<bool> {
          const std::string one = side.spec(heads_in(set));
          if (!runs_.may_ask(one)) return std::nullopt;
          ++side.found.set_tests;
          return runs_.outcome(one).right == side.wanted;
        });
    return {heads_in(found.members), found.minimal};
  }

  RescueRuns& runs_;
  SearchedSide keep_, drop_;
};
}  // namespace

void search_rescue(RescueRuns& runs, const RescueBlame& blame, const RescueOutcome& full,
                   const RescueOutcome& policy, RescueResults& results) {
  const PolicySpec spec = parse_policy(results.policy);
  results.stopped =
      RescueSearch(runs,
                   {results.keep, true, policy, blame.keep,
                    [&](const auto& heads) { return spec_keeping(spec, results.tokens, heads); }},
                   {results.drop, false, full, blame.drop,
                    [&](const auto& heads) { return spec_dropping(results.tokens, heads); }})
          .run(blame.named);
}

namespace {
/// The prompt and what is right after it, run with the full cache. The expected answer follows the
/// prompt, so that the queries that write it can be asked.
void capture_with_answer(const RescueRequest& request, const RescuePrompt& prompt,
                         const RescueResults& results, const std::string& target,
                         Progress& progress) {
  CaptureRequest wanted{.model = request.model, .tokens = prompt.sequence};
  for (const std::int32_t id : results.expected_ids) wanted.tokens->add(id, "answer");
  wanted.target = target;
  wanted.block = request.block;
  wanted.dtype = request.dtype;
  wanted.device = request.device;
  wanted.threads = request.threads;
  wanted.attention = AttentionStorage::none;
  if (prompt.probe) wanted.probe = probe_words().at(prompt.probe->kind);
  struct NoObserver : CaptureObserver {
    void on_tokens(int, int, int) override {}
    void on_note(const std::string&) override {}
  } nobody;
  run_capture(wanted, progress, nobody);
}

/// The mean over the tokens of the share of the head's other entries that the policy's score ranks
/// lower, at the last step at which the head had the token. NaN where the policy has no scores.
double score_rank(const Trace& trace, const RescueRequest& request, int budget, const HeadIndex& at,
                  const std::vector<int>& tokens, Progress& progress) {
  ReplayRequest replayed{.policy = request.policy,
                         .budget = budget,
                         .block = request.block,
                         .layers = {at.layer},
                         .metrics = false,
                         .scores_layer = at.layer,
                         .scores_head = at.head};
  const Replay made = replay(trace, replayed, progress);
  double sum = 0.0;
  int ranked = 0;
  for (const int token : tokens) {
    const TokenExplanation steps = explain(made, *made.find(at.layer, at.head), token);
    const auto last = std::find_if(steps.steps.rbegin(), steps.steps.rend(),
                                   [](const StepReason& step) { return step.rank > 0; });
    if (last == steps.steps.rend() || last->cache_size < 2) continue;
    sum += static_cast<double>(last->cache_size - last->rank) / (last->cache_size - 1);
    ++ranked;
  }
  return ranked > 0 ? sum / ranked : kUnknown;
}
}  // namespace

RescueBlame predict_rescue(const RescueRequest& request, const RescuePrompt& prompt,
                           Progress& progress, RescueResults& results) {
  std::optional<UnfinishedFile> made;  // outlives the trace in it
  std::optional<const Trace> trace;
  if (request.trace) {
    trace.emplace(*request.trace);
  } else {
    made.emplace(request.output);
    if (made->error() != 0) {
      throw FileError(request.output,
                      std::string("cannot write beside it: ") + std::strerror(made->error()));
    }
    capture_with_answer(request, prompt, results, made->path(), progress);
    trace.emplace(made->path());
  }
  ReadsRequest reads;
  reads.tokens = prompt.tokens;
  Progress own(progress, 0);
  const std::vector<TokenReads> read = token_reads(*trace, reads, own);
  const auto followed = [&](const PolicySpec& policy, int budget) {
    ReplayRequest replayed{
        .policy = policy, .budget = budget, .block = request.block, .metrics = false};
    FollowedReplay made_replay{replay(*trace, replayed, own), {}};
    made_replay.heads = follow(made_replay.replay, read, prompt.tokens,
                               restored_heads(*trace, made_replay.replay, prompt.tokens, {}, own));
    return made_replay;
  };
  const auto by_head = [&](const std::vector<FollowedHead>& heads) {
    std::vector<double> blame(results.keep.heads.size());
    for (const FollowedHead& head : heads)
      blame[results.index({head.reads.layer, head.reads.head})] = head.blame;
    return blame;
  };
  const auto [evicting, heads] = followed(request.policy, results.budget);
  const PolicySpec dropping = parse_policy(spec_dropping(prompt.tokens));
  RescueBlame blame{by_head(heads), by_head(followed(dropping, trace->length()).heads), {}};
  for (const FollowedHead& head : named_heads(heads))
    blame.named.push_back({head.reads.layer, head.reads.head});
  results.predicted_by = blame_name(heads);
  results.predicted_over = restored_over(*trace, evicting);
  for (const FollowedHead& head : heads) {
    const HeadIndex at{head.reads.layer, head.reads.head};
    results.predictions.push_back(
        {at, head.loss, head.reads.question * (1.0 - head.fate.kept), head.restored.change,
         head.restored.effect, head.blame, head.reads.read,
         score_rank(*trace, request, results.budget, at, prompt.tokens, own),
         blame.drop[results.index(at)]});
  }
  return blame;
}

void judge_blame(const RescueBlame& blame, RescueResults& results) {
  results.predicted = blame.keep;
  std::vector<double> blames, gains;
  for (std::size_t i = 0; i < blame.keep.size(); ++i) {
    const RescueEffect& kept = results.keep.heads[i];
    if (!kept.is_known() || !std::isfinite(blame.keep[i])) continue;
    blames.push_back(blame.keep[i]);
    gains.push_back(kept.logprob);
  }
  // Of a few named heads it says nothing.
  results.rank_correlation =
      !results.stopped && blames.size() > 1 ? spearman(blames, gains) : HeadRoles::kUnknown;
}

namespace {

class SetSearch {
 public:
  SetSearch(const std::vector<int>& order, const EnoughTest& is_enough)
      : rest_(order), is_enough_(is_enough) {}

  EnoughSet run() {
    while (!rest_.empty() && keep_one()) {
    }
    EnoughSet result;
    if (spent_) {
      result.members = with(rest_.size());
      return result;
    }
    leave_out_each();
    result.members = kept_;
    std::sort(result.members.begin(), result.members.end());
    result.minimal = !spent_;
    return result;
  }

 private:
  /// The kept ones and the first `count` of the rest, ascending.
  std::vector<int> with(std::size_t count) const {
    std::vector<int> set = kept_;
    set.insert(set.end(), rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(set.begin(), set.end());
    return set;
  }

  /// False where no further test is allowed.
  bool test(const std::vector<int>& set, bool& enough) {
    const std::optional<bool> result = is_enough_(set);
    if (!result) spent_ = true;
    enough = result.value_or(false);
    return result.has_value();
  }

  /// Finds how many of the rest are needed beside what is kept, and keeps the last of them. All of
  /// the rest are known to be enough. False at the end of the tests.
  bool keep_one() {
    std::size_t enough = rest_.size();        // the fewest known to be
    std::size_t low = kept_.empty() ? 1 : 0;  // fewer than this many are not
    const auto try_count = [&](std::size_t count) {
      bool is = false;
      if (!test(with(count), is)) return false;
      (is ? enough : low) = is ? count : count + 1;
      return true;
    };
    bool goes_on = true;
    for (std::size_t count = low; goes_on && count < enough;
         count = std::max<std::size_t>(1, 2 * count)) {
      goes_on = try_count(count);
    }
    while (goes_on && low < enough) goes_on = try_count((low + enough) / 2);
    rest_.resize(enough);
    if (!goes_on || rest_.empty()) return false;
    kept_.push_back(rest_.back());
    rest_.pop_back();
    return true;
  }

  /// More of a set is not always more: what can be left out of the whole is left out, the member
  /// that matters least first.
  void leave_out_each() {
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (std::size_t i = 0; i < kept_.size() && kept_.size() > 1;) {
        std::vector<int> without = kept_;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        std::vector<int> ascending = without;
        std::sort(ascending.begin(), ascending.end());
        bool is = false;
        if (!test(ascending, is)) return;
        if (is) {
          kept_ = std::move(without);
          smaller = true;
        } else {
          ++i;
        }
      }
    }
  }

  std::vector<int> kept_;  // those that matter least first
  std::vector<int> rest_;  // those that matter most first; with what is kept, enough
  const EnoughTest& is_enough_;
  bool spent_ = false;
};

}  // namespace

EnoughSet smallest_set(const std::vector<int>& order, const EnoughTest& is_enough) {
  return SetSearch(order, is_enough).run();
}

}  // namespace kvloupe
