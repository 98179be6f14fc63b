#include "analysis/policy/kit/value_aware_score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/math/numeric/float_rows.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/score_values.h"

namespace kvloupe {

namespace {
/// Σ h_i of all i ≠ j. Beyond a half the difference from the whole would cancel: summed anew then,
/// which happens for at most one entry.
double mass_without(std::span<const double> attention, std::size_t j, double all) {
  if (attention[j] <= 0.5 * all) return all - attention[j];
  double sum = 0.0;
  for (std::size_t i = 0; i < attention.size(); ++i) sum += i == j ? 0.0 : attention[i];
  return sum;
}

Eigen::VectorXd weighted_sum(std::span<const double> attention, const MatrixView& values) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(values.cols());
  std::vector<std::int32_t> all(attention.size());
  std::iota(all.begin(), all.end(), 0);
  add_rows(sum.data(), values.data(), values.outerStride(), all, attention,
           static_cast<std::size_t>(values.cols()));
  return sum;
}

double distance(const Eigen::VectorXd& point, const MatrixView& values, std::size_t row) {
  return std::sqrt(squared_distance(
      point.data(), values.data() + static_cast<Eigen::Index>(row) * values.outerStride(),
      static_cast<std::size_t>(values.cols())));
}
}  // namespace

std::vector<double> as_attention(std::span<const float> scores) {
  std::vector<double> shares(scores.begin(), scores.end());
  if (shares.empty()) return shares;
  const double least = *std::min_element(shares.begin(), shares.end());
  if (least < 0.0) {
    for (double& share : shares) share -= least;
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) {
    share = sum > 0.0 ? share / sum : 1.0 / static_cast<double>(shares.size());
  }
  return shares;
}

std::vector<double> caote_scores(std::span<const double> attention, const MatrixView& values) {
  std::vector<std::int32_t> all(attention.size());
  std::iota(all.begin(), all.end(), 0);
  return caote_scores(attention, values, all);
}

std::vector<double> caote_scores(std::span<const double> attention, const MatrixView& values,
                                 std::span<const std::int32_t> rows) {
  std::vector<double> result = caote_factors(attention, values, rows);
  const double all = std::accumulate(attention.begin(), attention.end(), 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result[i] *= attention[static_cast<std::size_t>(rows[i])] / all;
  }
  return result;
}

std::vector<double> caote_factors(std::span<const double> attention, const MatrixView& values,
                                  std::span<const std::int32_t> rows) {
  const double all = std::accumulate(attention.begin(), attention.end(), 0.0);
  const Eigen::VectorXd output = weighted_sum(attention, values) / all;
  std::vector<double> result;
  result.reserve(rows.size());
  for (const std::int32_t row : rows) {
    const auto j = static_cast<std::size_t>(row);
    const double others = mass_without(attention, j, all);
    if (!(others > 0.0)) {
      result.push_back(std::numeric_limits<double>::infinity());
    } else if (attention[j] > 0.5 * all) {
      std::vector<double> rest(attention.begin(), attention.end());
      rest[j] = 0.0;
      result.push_back(distance(weighted_sum(rest, values) / others, values, j));
    } else {
      // ‖(o − h_j v_j)/(1 − h_j) − v_j‖ = ‖o − v_j‖/(1 − h_j): nothing cancels up to a half.
      result.push_back(all / others * distance(output, values, j));
    }
  }
  return result;
}

std::vector<double> fastcaote_scores(std::span<const double> attention, const MatrixView& values) {
  std::vector<double> result = fastcaote_factors(attention, values);
  const double all = std::accumulate(attention.begin(), attention.end(), 0.0);
  for (std::size_t j = 0; j < attention.size(); ++j) result[j] *= attention[j] / all;
  return result;
}

std::vector<double> fastcaote_factors(std::span<const double> attention, const MatrixView& values) {
  constexpr double kLeastMass = 1e-6;
  const double all = std::accumulate(attention.begin(), attention.end(), 0.0);
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(values.cols());
  for (Eigen::Index i = 0; i < values.rows(); ++i) {
    mean += values.row(i).cast<double>().transpose();
  }
  mean /= static_cast<double>(values.rows());
  std::vector<double> result(attention.size());
  for (std::size_t j = 0; j < attention.size(); ++j) {
    const double others = std::max(mass_without(attention, j, all) / all, kLeastMass);
    result[j] = distance(mean, values, j) / others;
  }
  return result;
}

namespace {
class ValueAwareScore : public ScoreOver {
 public:
  ValueAwareScore(ValueAwareForm form, std::unique_ptr<Score> base)
      : ScoreOver(std::move(base)), form_(form) {}

  std::vector<float> score(const StepView& view, int head) override {
    const std::vector<float> scores = base_->score(view, head);
    const bool numbers =
        std::all_of(scores.begin(), scores.end(), [](float score) { return std::isfinite(score); });
    if (!numbers) return scores;  // reported with its token by the caller
    const MatrixView& values = view.caches[static_cast<std::size_t>(head)].values;
    if (keeps_small_scores()) return of_small_scores(scores, values);
    const std::vector<double> attention = as_attention(scores);
    const std::vector<double> changes = form_ == ValueAwareForm::caote
                                            ? caote_scores(attention, values)
                                            : fastcaote_scores(attention, values);
    std::vector<float> result(changes.size());
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const bool never = attention[i] >= 1.0 && std::isinf(changes[i]);
      result[i] = never ? kHighest : static_cast<float>(changes[i]);
    }
    return result;
  }
  bool needs_values() const override { return true; }

 private:
  /// "Never evict": the highest score there is.
  static constexpr float kHighest = std::numeric_limits<float>::max();

  /// The same by logarithms, ln c = ln h + ln(c / h): [n].
  std::vector<float> of_small_scores(const std::vector<float>& scores,
                                     const MatrixView& values) const {
    std::vector<double> logarithms;
    for (const float score : scores) logarithms.push_back(logarithm_of_score(score));
    const double largest = *std::max_element(logarithms.begin(), logarithms.end());
    if (std::isinf(largest)) std::fill(logarithms.begin(), logarithms.end(), 0.0);  // all zero: 1/n
    const double shift = std::isinf(largest) ? 0.0 : largest;
    std::vector<double> attention;
    for (const double logarithm : logarithms) attention.push_back(std::exp(logarithm - shift));
    const double sum = std::accumulate(attention.begin(), attention.end(), 0.0);
    for (double& share : attention) share /= sum;
    std::vector<std::int32_t> all(attention.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<double> factors = form_ == ValueAwareForm::caote
                                            ? caote_factors(attention, values, all)
                                            : fastcaote_factors(attention, values);
    std::vector<float> result;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const double change = logarithms[i] - shift - std::log(sum) + std::log(factors[i]);
      result.push_back(std::isinf(factors[i]) ? kHighest : score_of_logarithm(change));
    }
    return result;
  }

  ValueAwareForm form_;
};
}  // namespace

std::unique_ptr<Score> make_value_aware_score(ValueAwareForm form, std::unique_ptr<Score> base) {
  return make_copyable<ValueAwareScore>(form, std::move(base));
}

std::string value_aware_refusal(const SpecPart& part, const PolicySpec& spec) {
  if (const SpecPart* other = next_alike(part, spec)) {
    return "cannot be combined with " + other->name + "; leave one out";
  }
  return one_set_refusal(part, spec);
}

std::vector<std::string> value_aware_doubts(const SpecPart& part, const PolicySpec& spec) {
  std::vector<std::string> doubts;
  const std::string& score = spec.score().name;
  if (base_scale(spec) == ScoreScale::signed_own) {
    doubts.push_back(part.name + " reads scores as attention: if scores of " + score +
                     " are negative, all are first shifted by their minimum");
  }
  if (base_scale(spec) != ScoreScale::attention) {
    doubts.push_back(part.name + " is exact for attention, but " + score + " is not attention");
  }
  return doubts;
}

}  // namespace kvloupe
