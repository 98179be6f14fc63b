// compactor: leverage and non-causal attention, mixed.

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/policy/kit/chunk_attention.h"
#include "analysis/policy/kit/leverage_scores.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {

/// Standard scores over all heads together: each finite value less the mean of all, divided by
/// their standard deviation (of the sample; at least 1e-6). Values that are not finite stay as they
/// are.
void standardise(std::vector<std::vector<double>>& heads) {
  double sum = 0.0;
  long count = 0;
  const auto each = [&](const auto& body) {
    for (std::vector<double>& head : heads) {
      for (double& value : head) {
        if (!std::isnan(value)) body(value);
      }
    }
  };
  each([&](double value) { sum += value, ++count; });
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
  each([&](double value) { squares += (value - mean) * (value - mean); });
  const double deviation = count < 2 ? 0.0 : std::sqrt(squares / static_cast<double>(count - 1));
  const double unit = std::max(deviation, 1e-6);
  each([&](double& value) { value = (value - mean) / unit; });
}

class CompactorScore : public Score {
 public:
  CompactorScore(const SpecPart& part, const LayerContext& context)
      : for_heads_(context.for_heads),
        blending_(part.argument("blending")),
        first_(part.count("first")),
        last_(part.count("last")),
        chunks_(context, {.chunk = part.count("chunk"),
                          .scaled = part.count("scaled") == 1,
                          .padded = part.count("padded") == 1,
                          .first_token = first_,
                          .hold_back = last_}),
        keys_(leverage_of_heads(part, context)) {}

  Protection protection() const override { return {.sink_tokens = first_, .window = last_}; }
  bool needs_values() const override { return true; }

  void observe(const StepView& view, int head) override {
    const auto index = static_cast<std::size_t>(head);
    chunks_.observe(view, head);
    keys_[index].observe(view.caches[index]);
  }

  /// Standard scores are over all heads of the layer.
  void prepare(const StepView& view, int budget) override {
    const std::size_t heads = view.caches.size();
    std::vector<std::vector<double>> leverage(heads), attention(heads);
    const auto of_head = [&](int head) {
      const auto index = static_cast<std::size_t>(head);
      leverage[index] = middle_leverage(view.caches[index], head);
      attention[index] = middle_attention(view.caches[index], head);
    };
    if (for_heads_) {
      for_heads_(static_cast<int>(heads), of_head);
    } else {
      for (int head = 0; head < static_cast<int>(heads); ++head) of_head(head);
    }
    standardise(leverage);
    standardise(attention);
    scores_.assign(heads, {});
    for (std::size_t head = 0; head < heads; ++head) {
      const CacheView& cache = view.caches[head];
      const auto [begin, end] = middle(cache);
      const double share = blending(cache.tokens.size(), budget);
      scores_[head].resize(cache.tokens.size());
      for (std::size_t i = begin; i < end; ++i) {
        scores_[head][i] = share * leverage[head][i - begin] + attention[head][i - begin];
      }
      fill_protected(scores_[head], begin, end);
    }
  }

  std::vector<float> score(const StepView& /*view*/, int head) override {
    return to_float(scores_[static_cast<std::size_t>(head)]);
  }

  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    const auto index = static_cast<std::size_t>(head);
    chunks_.retain(head, decision);
    keys_[index].retain(view.caches[index], decision);
  }

 private:
  /// The rows that have a score: [begin, end).
  std::pair<std::size_t, std::size_t> middle(const CacheView& cache) const {
    const std::size_t n = cache.tokens.size();
    const std::size_t begin = rows_before(cache.tokens, first_);
    const std::size_t end = n - std::min(n, static_cast<std::size_t>(last_));
    return {begin, std::max(begin, end)};
  }
  double blending(std::size_t n, int budget) const {
    if (const double* given = std::get_if<double>(&blending_)) return *given;
    return std::max(0.0, 1.0 - static_cast<double>(budget) / static_cast<double>(n));
  }

  std::vector<double> middle_leverage(const CacheView& cache, int head) const {
    const auto [begin, end] = middle(cache);
    return keys_[static_cast<std::size_t>(head)].scores(static_cast<Eigen::Index>(begin),
                                                        static_cast<Eigen::Index>(end - begin));
  }

  std::vector<double> middle_attention(const CacheView& cache, int head) const {
    const auto [begin, end] = middle(cache);
    const std::vector<double>& received = chunks_.of(head);
    std::vector<double> scores(received.begin() + static_cast<std::ptrdiff_t>(begin),
                               received.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      // The last tokens of a step wait for their chunk. If a window took entries, or a head keeps
      // fewer, one of them may already be in the middle.
      if (std::isnan(scores[i])) scores[i] = 0.0;
      scores[i] *= std::sqrt(squared_length(cache.values, static_cast<Eigen::Index>(begin + i)));
    }
    return smoothed(scores, 3, Pool::mean, static_cast<int>(scores.size()));
  }

  HeadLoop for_heads_;
  SpecValue blending_;
  int first_;
  int last_;
  ChunkAttention chunks_;
  std::vector<LeverageKeys> keys_;           // [Hk]
  std::vector<std::vector<double>> scores_;  // [Hk][n]
};
}  // namespace

void compactor(PolicyEntry& entry) {
  entry.summary = "keys that stand alone, and entries that their own chunk attends to";
  entry.formula =
      "score_i = blending · z(leverage_i) + z(noncausal_i), z: standard scores over the entries of "
      "all heads of the layer between the first and the last tokens, which are always kept";
  entry.source = "Compactor (Chari and Van Durme, 2025, arXiv 2507.08143)";
  entry.needs = "queries, keys; the rotation of RoPE";
  entry.work = "that of leverage and of noncausal";
  entry.differences =
      "as in kvpress, except for the random numbers. Every step cuts its tokens, with those that "
      "waited before them, into chunks; a chunk ends with the step. The last tokens of a step wait "
      "for the next step, and count 0 if they must be scored before. The first tokens are in no "
      "chunk";
  entry.parameters = {
      number_or_word_parameter(
          "blending", std::string("ratio"), 0, 1000, {"ratio"},
          "weight of the leverage; ratio: the share of the head's entries that must leave"),
      count_parameter("first", 8.0, 0, 1e6, "first tokens that are always kept"),
      count_parameter("last", 4.0, 0, 1e6, "last entries that are always kept"),
      count_parameter("sketch", 48.0, 0, 4096, "as in leverage"),
      number_parameter("ridge", 0.01, 1e-9, 1e6, "as in leverage"),
      count_parameter("seed", 0.0, 0, 1e9, "as in leverage"),
      count_parameter("chunk", 256.0, 1, 1e6, "as in noncausal"),
      flag_parameter("scaled", 1.0, "as in noncausal"),
      flag_parameter("padded", 0.0, "as in noncausal")};
  entry.variants = {{"the paper", "compactor"},
                    {"kvpress", "compactor(scaled=0,padded=1)"},
                    {"kvpress under AdaKV", "compactor(scaled=0,padded=1)+adakv"}};
  entry.own_protection = protects("first", "last");
  entry.builder = ScoreBuilder{made_of<CompactorScore>, ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
