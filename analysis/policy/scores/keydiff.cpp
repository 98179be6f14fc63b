// keydiff: keys unlike the others are kept.

#include <algorithm>

#include "analysis/math/numeric/float_rows.h"
#include "analysis/policy/kit/key_norms.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
enum class Anchor { mean, rawmean, median, pairwise };
enum class Metric { cosine, dot, euclidean };

/// One head: norms and the sum over the cache of k̂, or of k, are held across steps.
class KeyDiffHead {
 public:
  KeyDiffHead(Anchor anchor, Metric metric) : anchor_(anchor), metric_(metric) {}

  void observe(const CacheView& cache) {
    const MatrixView& keys = cache.keys;
    if (sum_.size() == 0) sum_ = Eigen::VectorXd::Zero(keys.cols());
    norms_.observe(keys, [&](Eigen::Index row) { add(keys, row, 1.0); });
  }

  void retain(const CacheView& cache, const HeadDecision& decision) {
    norms_.retain(decision, [&](Eigen::Index row) { add(cache.keys, row, -1.0); });
  }

  std::vector<float> score(const CacheView& cache) const {
    const MatrixView& keys = cache.keys;
    if (anchor_ == Anchor::pairwise) return pairwise(keys);
    const Eigen::VectorXd direction = anchor_of(keys);
    const Eigen::Index n = keys.rows();
    std::vector<float> result(static_cast<std::size_t>(n));
    Eigen::Map<Eigen::VectorXf> scores(result.data(), n);
    if (metric_ == Metric::euclidean) {
      scores = (keys.rowwise() - direction.transpose().cast<float>()).rowwise().norm();
      return result;
    }
    // cosine: −⟨anchor/‖anchor‖, k_i⟩/‖k_i‖, 0 where either is zero.
    const double length = metric_ == Metric::cosine ? direction.norm() : 1.0;
    if (length == 0.0) return result;
    scores.noalias() = keys * (-direction / length).cast<float>().eval();
    if (metric_ == Metric::cosine) {
      for (Eigen::Index i = 0; i < n; ++i)
        scores[i] = norms_[i] > 0.0F ? scores[i] / norms_[i] : 0.0F;
    }
    return result;
  }

 private:
  void add(const MatrixView& keys, Eigen::Index row, double sign) {
    if (anchor_ == Anchor::median || anchor_ == Anchor::pairwise) return;
    double factor = sign;
    if (anchor_ == Anchor::mean) {
      if (!(norms_[row] > 0.0F)) return;
      factor /= static_cast<double>(norms_[row]);
    }
    add_row(sum_.data(), keys.data() + row * keys.outerStride(), factor,
            static_cast<std::size_t>(keys.cols()));
  }

  Eigen::VectorXd anchor_of(const MatrixView& keys) const {
    const auto n = static_cast<double>(keys.rows());
    if (anchor_ != Anchor::median) return sum_ / n;
    Eigen::VectorXd median(keys.cols());
    std::vector<float> column(static_cast<std::size_t>(keys.rows()));
    for (Eigen::Index c = 0; c < keys.cols(); ++c) {
      for (Eigen::Index r = 0; r < keys.rows(); ++r)
        column[static_cast<std::size_t>(r)] = keys(r, c);
      const auto middle = column.begin() + static_cast<std::ptrdiff_t>(column.size() / 2);
      std::nth_element(column.begin(), middle, column.end());
      median[c] = static_cast<double>(*middle);
      if (column.size() % 2 == 0) {  // the mean of the two in the middle
        const double below = static_cast<double>(*std::max_element(column.begin(), middle));
        median[c] = (median[c] + below) / 2.0;
      }
    }
    return median;
  }

  /// Eq. 7: −Σ_j cos(k_i, k_j), j = i included; for the other metrics −Σ_j ⟨k_i, k_j⟩, Σ_j ‖k_i −
  /// k_j‖. A sum of products is one product with the sum: only distances take n² d operations.
  std::vector<float> pairwise(const MatrixView& keys) const {
    const Eigen::Index n = keys.rows();
    Matrix rows = keys;
    if (metric_ == Metric::cosine) {
      for (Eigen::Index i = 0; i < n; ++i) {
        if (norms_[i] > 0.0F) rows.row(i) /= norms_[i];
      }
    }
    std::vector<float> result(static_cast<std::size_t>(n));
    const Eigen::RowVectorXd sum = rows.cast<double>().colwise().sum();
    for (Eigen::Index i = 0; i < n; ++i) {
      result[static_cast<std::size_t>(i)] = static_cast<float>(
          metric_ == Metric::euclidean
              ? (rows.rowwise() - rows.row(i)).rowwise().norm().cast<double>().sum()
              : -rows.row(i).cast<double>().dot(sum));
    }
    return result;
  }

  Anchor anchor_;
  Metric metric_;
  KeyNorms norms_;
  Eigen::VectorXd sum_;  // Σ k̂_j for anchor=mean, Σ k_j for rawmean
};

/// In the order of the enumerators.
std::vector<std::string> anchor_words() { return {"mean", "rawmean", "median", "pairwise"}; }
std::vector<std::string> metric_words() { return {"cosine", "dot", "euclidean"}; }

template <typename Enum>
Enum choice(const std::vector<std::string>& words, const std::string& word) {
  return static_cast<Enum>(std::find(words.begin(), words.end(), word) - words.begin());
}
}  // namespace

void keydiff(PolicyEntry& entry) {
  entry.summary = "keeps the keys least similar to their anchor, the mean direction";
  entry.traits.reads_queries = false;
  entry.formula = "score_i = -cos(anchor, k_i), anchor = mean of the normalised keys in the cache";
  entry.source = "KeyDiff, eq. 7 (pairwise), algorithm 1, tables 2 and 3";
  entry.needs = "keys";
  entry.work = "2 n d operations per head; anchor=pairwise with metric=euclidean: n² d";
  entry.differences =
      "pairwise scores rank as mean-anchor scores do; the paper's table 2 nevertheless shows a "
      "difference";
  entry.parameters = {
      word_parameter(
          "anchor", "mean", anchor_words(),
          "mean of normalised keys, mean of keys, median per coordinate (for an even count "
          "the mean of the middle two), or the sum over all keys"),
      word_parameter("metric", "cosine", metric_words(),
                     "-cosine, -inner product, or +distance to the anchor")};
  entry.variants = {{"KeyDiff algorithm 1: mean of normalised keys", "keydiff"},
                    {"KeyDiff table 2: mean of raw keys", "keydiff(anchor=rawmean)"},
                    {"KeyDiff table 2: median", "keydiff(anchor=median)"},
                    {"KeyDiff eq. 7: pairwise", "keydiff(anchor=pairwise)"},
                    {"KeyDiff table 3: inner product", "keydiff(metric=dot)"},
                    {"KeyDiff table 3: distance", "keydiff(metric=euclidean)"}};
  entry.cost = [](const SpecPart&) {
    const auto entries = [](const StepShape& step) { return step.entries; };
    return CostOrder{"O(N + B)", "O(N + B)", entries, entries, keydiff_operations};
  };
  entry.builder =
      ScoreBuilder{[](const SpecPart& part, const LayerContext& context) {
                     const KeyDiffHead head(choice<Anchor>(anchor_words(), part.word("anchor")),
                                            choice<Metric>(metric_words(), part.word("metric")));
                     return make_copyable<ScoreOfHeads<KeyDiffHead>>(
                         std::vector(static_cast<std::size_t>(context.model.num_kv_heads), head));
                   },
                   ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
