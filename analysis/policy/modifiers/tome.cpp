// tome: the value of an evicted entry goes to the kept entry with the most similar key.

#include <algorithm>
#include <map>

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
constexpr double kLeastWeight = 1e-6;  // less does not change a float32

class ToMe : public Merging {
 public:
  explicit ToMe(const SpecPart& part) : threshold_(part.number("threshold")) {}

  std::vector<Merge> gifts(const StepView& view, int head, const HeadDecision& decision) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    std::vector<int> evicted;
    auto next = decision.kept.begin();
    for (int row = 0; row < static_cast<int>(cache.tokens.size()); ++row) {
      if (next != decision.kept.end() && *next == row) {
        ++next;
      } else if (decision.fates[static_cast<std::size_t>(row)] != Fate::dropped) {
        evicted.push_back(row);  // what a person took away is not to live on in others
      }
    }
    if (evicted.empty() || decision.kept.empty()) return {};
    const Eigen::MatrixXd cosines =
        directions(cache.keys, evicted) * directions(cache.keys, decision.kept).transpose();
    std::map<int, std::vector<std::pair<int, double>>> given;  // by receiver, givers ascending
    for (std::size_t i = 0; i < evicted.size(); ++i) {
      Eigen::Index best = 0;
      const double cosine = cosines.row(static_cast<Eigen::Index>(i)).maxCoeff(&best);
      if (cosine < threshold_) continue;
      const int receiver = decision.kept[static_cast<std::size_t>(best)];
      const double own = cache.values.row(evicted[i]).cast<double>().norm();
      const double other = cache.values.row(receiver).cast<double>().norm();
      const double weight = std::clamp(cosine, 0.0, 1.0) * own / (own + other + 1e-6);
      if (weight > kLeastWeight) given[receiver].emplace_back(evicted[i], weight);
    }
    std::vector<Merge> result;
    for (auto& [receiver, members] : given) {
      double sum = 1.0;
      for (const auto& [row, weight] : members) sum += weight;
      members.emplace_back(receiver, 1.0);
      std::sort(members.begin(), members.end());
      Merge merge;
      merge.into = receiver;
      for (const auto& [row, weight] : members) {
        merge.from.push_back(row);
        merge.weights.push_back(static_cast<float>(weight / sum));
      }
      result.push_back(std::move(merge));
    }
    return result;
  }

 private:
  /// Rows of these entries, of length 1; a key of zeros stays.
  template <typename Rows>
  static Eigen::MatrixXd directions(const MatrixView& keys, const Rows& rows) {
    Eigen::MatrixXd result(static_cast<Eigen::Index>(rows.size()), keys.cols());
    for (Eigen::Index i = 0; i < result.rows(); ++i) {
      const Eigen::Index row = rows[static_cast<std::size_t>(i)];
      result.row(i) = keys.row(row).cast<double>();
      const double length = result.row(i).norm();
      if (length > 0.0) result.row(i) /= length;
    }
    return result;
  }

  double threshold_;
};
}  // namespace

void tome(PolicyEntry& entry) {
  entry.summary = "the value of an evicted entry goes to the kept entry with the most similar key";
  entry.formula =
      "v_j <- (v_j + sum w_i v_i) / (1 + sum w_i) over the evicted i whose key is nearest to k_j, "
      "w_i = cos(k_i, k_j) ||v_i|| / (||v_i|| + ||v_j||); keys stay";
  entry.source =
      "kvpress's MergingPress, after ToMe (Bolya et al., 2022, arXiv 2210.09461) and D2O (Wan et "
      "al., 2024, arXiv 2406.13035)";
  entry.needs = "keys, values";
  entry.work = "n products of length d per evicted entry";
  entry.differences =
      "kvpress can merge only a share of the evicted entries, the most similar ones; here all "
      "above the threshold are merged";
  entry.parameters = {
      number_parameter("threshold", 0.0, -1, 1, "a less similar entry is evicted without a trace")};
  entry.variants = {{"kvpress", "tome"}};
  entry.builder = MergingBuilder{made_of<ToMe>};
  entry.notes = always("the bound of the perturbation does not hold for a merged cache");
}

}  // namespace kvloupe::policies
