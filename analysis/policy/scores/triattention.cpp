// triattention: the attention that the mean query would pay from later positions.

#include <algorithm>
#include <cmath>
#include <complex>

#include "analysis/math/rope.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
constexpr int kDistances = 17;  // 1, 2, 4 … 65536

using Complex = std::complex<double>;

class TriAttentionScore : public Score {
 public:
  TriAttentionScore(const SpecPart& part, const LayerContext& context)
      : model_(context.model),
        standard_(part.count("standard") == 1),
        largest_(part.word("aggregate") == "max"),
        rope_(context.model),
        moments_(context.model, QueryMoments::Frame::unrotated, 0, false),
        lengths_(static_cast<std::size_t>(context.model.num_heads),
                 Eigen::VectorXd::Zero(static_cast<Eigen::Index>(rope_.pairs()))) {
    for (std::size_t j = 0; j < rope_.pairs(); ++j) {
      Complex mean = 0.0;
      for (int i = 0; i < kDistances; ++i) {
        mean += std::polar(1.0 / kDistances, rope_.pair(j).frequency * std::ldexp(1.0, i));
      }
      ahead_.push_back(mean);
    }
  }

  void observe(const StepView& view, int head) override {
    moments_.observe(view, head);
    const int group = model_.group_size();
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      const MatrixView& queries = view.queries[static_cast<std::size_t>(query_head)];
      for (std::size_t j = 0; j < rope_.pairs(); ++j) {
        const Rope::Pair pair = rope_.pair(j);  // a rotation does not change its length
        double sum = 0.0;
        for (Eigen::Index row = 0; row < queries.rows(); ++row) {
          sum += std::hypot(static_cast<double>(queries(row, pair.first)),
                            static_cast<double>(queries(row, pair.second)));
        }
        lengths_[static_cast<std::size_t>(query_head)][static_cast<Eigen::Index>(j)] += sum;
      }
    }
  }

  std::vector<float> score(const StepView& view, int head) override {
    const int group = model_.group_size();
    const MatrixView& keys = view.caches[static_cast<std::size_t>(head)].keys;
    Eigen::ArrayXd result;
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      Eigen::ArrayXd own = of_query_head(keys, query_head, view.block.end);
      if (standard_) own = standardised(own);
      if (query_head == head * group) {
        result = own;
      } else if (largest_) {
        result = result.max(own);
      } else {
        result += own;
      }
    }
    if (!largest_) result /= group;
    return {result.data(), result.data() + result.size()};
  }

 private:
  /// The score of a pair of coordinates with the mean query q̄, the mean length m and the key k, as
  /// complex numbers: Re(q̄ exp(i now ω) c k*) + (m − |q̄|)|k|, c the mean of exp(i δ ω) over the
  /// distances δ. The key has its own rotation already. Coordinates without rotation count with
  /// their product.
  Eigen::ArrayXd of_query_head(const MatrixView& keys, int query_head, int now) const {
    const QueryMoments::Sums& sums = moments_.of(query_head);
    const Eigen::VectorXd mean = sums.mean();
    const Eigen::VectorXd length =
        lengths_[static_cast<std::size_t>(query_head)] / static_cast<double>(sums.count);
    Eigen::VectorXf direction = mean.cast<float>();  // of coordinates that are not rotated
    std::vector<double> spread(rope_.pairs());
    for (std::size_t j = 0; j < rope_.pairs(); ++j) {
      const Rope::Pair pair = rope_.pair(j);
      const Complex centre(mean[pair.first], mean[pair.second]);
      const Complex turned = centre * std::polar(1.0, now * pair.frequency) * ahead_[j];
      direction[pair.first] = static_cast<float>(turned.real());
      direction[pair.second] = static_cast<float>(turned.imag());
      spread[j] = length[static_cast<Eigen::Index>(j)] - std::abs(centre);
    }
    Eigen::ArrayXd scores = (keys * direction).cast<double>();
    for (Eigen::Index i = 0; i < keys.rows(); ++i) {
      for (std::size_t j = 0; j < rope_.pairs(); ++j) {
        const Rope::Pair pair = rope_.pair(j);
        const auto x = static_cast<double>(keys(i, pair.first));
        const auto y = static_cast<double>(keys(i, pair.second));
        scores[i] += spread[j] * std::sqrt(x * x + y * y);
      }
    }
    return scores;
  }

  static Eigen::ArrayXd standardised(const Eigen::ArrayXd& values) {
    const double mean = values.mean();
    const double deviation = std::sqrt((values - mean).square().mean());
    return (values - mean) / std::max(deviation, 1e-6);
  }

  ModelInfo model_;
  bool standard_;
  bool largest_;
  Rope rope_;
  QueryMoments moments_;
  std::vector<Eigen::VectorXd> lengths_;  // [Hq] of [pairs]: Σ |q|
  std::vector<Complex> ahead_;            // [pairs]
};
}  // namespace

void triattention(PolicyEntry& entry) {
  entry.summary = "the attention that the mean query would pay from later positions";
  entry.formula =
      "score_i = mean over distances δ of 1, 2, 4 … 65536 of Σ_f |q̄_f||k_f| cos((now − i + δ) ω_f "
      "+ φ_f) + Σ_f (m_f − |q̄_f|)|k_f|; now: the next token's position; pairs f of coordinates "
      "before RoPE, q̄: mean query, m: mean length, φ: the angle from k_f to q̄_f; by query head as "
      "standard scores over the head's entries (deviation by n), of these the largest of the group";
  entry.source = "TriAttention (2026, arXiv 2604.04921)";
  entry.needs = "queries, keys; the rotation of RoPE";
  entry.work = "B d operations per query head to add the queries, 2 n d to score";
  entry.differences =
      "its authors compute means beforehand, from other texts, keep the prompt and evict every 128 "
      "generated tokens; here means are of the queries so far. `now` and the deviation are as in "
      "their code; the paper leaves open whether `now` is the last token or the next. Their "
      "variant with one set for all layers and heads is left out";
  entry.parameters = {
      word_parameter("aggregate", "max", {"max", "mean"},
                     "largest or mean over the query heads of the group"),
      flag_parameter("standard", 1.0,
                     "0: scores as they are, not as standard scores of each query head")};
  entry.builder = ScoreBuilder{made_of<TriAttentionScore>, ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
