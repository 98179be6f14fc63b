// shared: one set for all heads of a layer, as engines with one block table hold them.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/top_selection.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
enum class Sharing { mean, rank, votes };

/// Heads that share a set have one score for each token.
class SharedScore : public ScoreOver {
 public:
  SharedScore(Sharing how, int group, int heads, std::unique_ptr<Score> base)
      : ScoreOver(std::move(base)), how_(how), group_(group), heads_(heads) {}

  void prepare(const StepView& view, int budget) override {
    base_->prepare(view, budget);
    shared_.clear();
    for (int first = 0; first < heads_; first += group_) {
      const int end = std::min(first + group_, heads_);
      const auto& tokens = view.caches[static_cast<std::size_t>(first)].tokens;
      std::vector<std::vector<float>> scores;
      for (int head = first; head < end; ++head) {
        const auto& own = view.caches[static_cast<std::size_t>(head)].tokens;
        if (!std::equal(tokens.begin(), tokens.end(), own.begin(), own.end())) {
          throw WorkError("shared needs the same entries in every head that shares a set");
        }
        if (!tokens.empty()) scores.push_back(base_->score(view, head));
      }
      shared_.push_back(tokens.empty()           ? std::vector<float>()
                        : how_ == Sharing::mean  ? means(scores)
                        : how_ == Sharing::votes ? votes(scores, first, tokens, budget)
                                                 : best_ranks(scores));
    }
  }

  std::vector<float> score(const StepView& /*view*/, int head) override {
    return shared_[static_cast<std::size_t>(head / group_)];
  }
  void set_protection(const Protection& protection) override {
    protection_ = protection;
    base_->set_protection(protection);
  }
  double rows_summed(const StepView& view) const override {
    return how_ == Sharing::mean ? base_->rows_summed(view) : 1.0;
  }
  bool keeps_small_scores() const override {
    return how_ == Sharing::mean && base_->keeps_small_scores();
  }

 private:
  using Scores = std::vector<std::vector<float>>;  // [heads of the group][n]

  std::vector<float> means(const Scores& scores) const {
    const bool small = base_->keeps_small_scores();
    std::vector<float> result;
    for (std::size_t row = 0; row < scores.front().size(); ++row) {
      double sum = 0.0;
      for (const auto& own : scores) {
        sum += small ? std::exp(logarithm_of_score(own[row])) : static_cast<double>(own[row]);
      }
      const double mean = sum / static_cast<double>(scores.size());
      result.push_back(small ? score_of_logarithm(std::log(mean)) : static_cast<float>(mean));
    }
    return result;
  }

  /// n less the best place that any head gives an entry; the place of the highest score is 0, and
  /// of equal scores the later entry comes first.
  static std::vector<float> best_ranks(const Scores& scores) {
    const std::size_t n = scores.front().size();
    std::vector<std::size_t> best(n, n);
    std::vector<std::size_t> order(n);
    for (const auto& own : scores) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return own[a] != own[b] ? own[a] > own[b] : a > b;
      });
      for (std::size_t place = 0; place < n; ++place) {
        best[order[place]] = std::min(best[order[place]], place);
      }
    }
    std::vector<float> result;
    for (const std::size_t place : best) result.push_back(static_cast<float>(n - place));
    return result;
  }

  /// How many other entries have fewer votes, or as many and a worse best rank. A head votes for
  /// the entries that it would keep by itself with `budget` places.
  std::vector<float> votes(const Scores& scores, int first, std::span<const std::int32_t> tokens,
                           int budget) const {
    const std::vector<float> ranks = best_ranks(scores);
    std::vector<std::pair<int, float>> votes;  // votes, best rank
    for (const float rank : ranks) votes.emplace_back(0, rank);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      std::vector<Fate> fates = protection_.fates(first + static_cast<int>(i), tokens, budget);
      const auto unprotected = std::count(fates.begin(), fates.end(), Fate::evicted);
      const int places = budget - static_cast<int>(fates.size()) + static_cast<int>(unprotected);
      mark_highest(scores[i], places, Fate::by_score, fates);
      for (std::size_t row = 0; row < fates.size(); ++row) {
        if (fates[row] != Fate::evicted) ++votes[row].first;
      }
    }
    auto sorted = votes;
    std::sort(sorted.begin(), sorted.end());
    std::vector<float> result;
    for (const auto& own : votes) {
      result.push_back(
          static_cast<float>(std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin()));
    }
    return result;
  }

  Sharing how_;
  int group_;
  int heads_;
  Protection protection_;
  std::vector<std::vector<float>> shared_;  // [groups][n]
};

/// How many neighbouring heads share a set; 0: all of the layer.
int group_of(const SpecPart& part) {
  const auto* number = std::get_if<double>(&part.argument("by"));
  return number == nullptr ? 0 : static_cast<int>(*number);
}

std::string shared_refusal(const SpecPart& own, const PolicySpec& spec) {
  const auto* number = std::get_if<double>(&own.argument("by"));
  if (number != nullptr && *number != std::floor(*number)) {
    return "by=" + number_text(*number) + " is not a number of heads; give layer or a whole number";
  }
  for (const SpecPart& part : spec.parts) {
    if (find_policy(part.name)->parameter("heads") == nullptr) continue;
    const auto* heads = std::get_if<std::string>(&part.argument("heads"));
    if (heads == nullptr || heads->empty()) continue;
    return part.name +
           " names heads, but heads that share a set keep the same tokens; name no heads there";
  }
  return "";
}
}  // namespace

void shared(PolicyEntry& entry) {
  entry.summary = "all heads of a layer keep one set, as in engines with one block table";
  entry.formula =
      "one score of each token for all heads. how=mean: the mean of the heads' scores. rank: n "
      "less the best place (from 0) that any head gives the token, so the heads' first choices "
      "stay, then their second ones. votes: the number of heads that would keep the token by "
      "themselves, their protected entries included; of equals by rank. by=g: the same within g "
      "neighbouring heads";
  entry.source =
      "kvloupe's own comparison; engines such as vLLM and SGLang hold one table of blocks for all "
      "heads (PagedAttention, arXiv 2309.06180)";
  entry.needs = "the scores of all heads of a layer";
  entry.work = "n Hk additions; rank, votes: Hk n log n comparisons";
  entry.parameters = {
      word_parameter("how", "mean", {"mean", "rank", "votes"}, "how the heads' scores become one"),
      number_or_word_parameter("by", std::string("layer"), 1, 4096, {"layer"},
                               "who shares a set: all heads of a layer, or so many neighbouring "
                               "key-value heads, such as those on one device")};
  entry.example = "h2o+shared";
  entry.variants = {{"mean of the scores", "shared"},
                    {"union of the heads' first choices", "shared(rank)"},
                    {"votes of the heads", "shared(votes)"}};
  entry.builder = ScoreGrouping{
      [](const SpecPart& part, const LayerContext& context, std::unique_ptr<Score> base) {
        const std::string& how = part.word("how");
        const int heads = context.model.num_kv_heads;
        return make_copyable<SharedScore>(how == "mean"   ? Sharing::mean
                                          : how == "rank" ? Sharing::rank
                                                          : Sharing::votes,
                                          group_of(part) == 0 ? heads : group_of(part), heads,
                                          std::move(base));
      }};
  entry.refusal = shared_refusal;
  entry.doubts = [](const SpecPart& part, const PolicySpec& spec) -> Lines {
    const ScoreScale scale = score_scale(spec);
    if (part.word("how") != "mean" ||
        (scale != ScoreScale::per_head && scale != ScoreScale::signed_own))
      return {};
    return ("the scores of " + spec.score().name +
            " have a scale of their own in each head, so heads with large scores decide "
            "more; shared(rank) and shared(votes) do not depend on scales");
  };
}

}  // namespace kvloupe::policies
