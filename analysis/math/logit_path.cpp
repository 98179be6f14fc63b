#include "analysis/math/logit_path.h"

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
/// (δ − x̂ (x̂·δ)/D) / r, the derivative of x̂ times δ; δ less its mean where the norm is centred.
/// As a matrix it is symmetric, so it also takes gradients back.
Eigen::VectorXd through_scaling(const TraceFinalNorm& norm, int token, Eigen::VectorXd change) {
  const Eigen::VectorXd normed = norm.normed(token);
  if (norm.centred()) change.array() -= change.mean();
  const double along = normed.dot(change) / static_cast<double>(normed.size());
  return (change - along * normed) / norm.rms(token);
}
}  // namespace

std::string LogitPath::missing(const Trace& trace, LogitsOf tokens) {
  if (!trace.has_output_weight()) {
    return "the trace has no output weights, which are needed for the change of the logits";
  }
  if (!trace.has_lm_head() && trace.head_row_ids().empty()) {
    return std::string("the trace has no output head; ") + kCaptureOutputHead;
  }
  if (tokens == LogitsOf::vocabulary && !trace.has_lm_head()) {
    return std::string("the trace has only the output head's rows of its own tokens; ") +
           kCaptureOutputHead;
  }
  if (!trace.has_final_norm()) {
    return std::string(
               "the trace does not say what the last norm does: it is of an earlier version, or "
               "its model changes the heads' outputs or the logits in another way; ") +
           kCaptureOutputHead;
  }
  return {};
}

LogitPath::LogitPath(const Trace& trace, LogitsOf tokens) : norm_(trace) {
  if (const std::string why = missing(trace, tokens); !why.empty()) throw WorkError(why);
}

Eigen::VectorXd LogitPath::head_input_change(int token, const Eigen::VectorXd& change) const {
  return norm_.weight().cwiseProduct(through_scaling(norm_, token, change));
}

Eigen::VectorXd LogitPath::gradient(int token, std::int32_t id) const {
  return through_scaling(norm_, token, norm_.weight().cwiseProduct(norm_.head_row(id)));
}

LogitEffect logit_effect(const Matrix& lm_head, const Eigen::VectorXd& change, int count) {
  std::vector<LogitEffect::Change> all;
  for (Eigen::Index token = 0; token < lm_head.rows(); ++token) {
    double logit = 0.0;
    for (Eigen::Index i = 0; i < lm_head.cols(); ++i) {
      logit += static_cast<double>(lm_head(token, i)) * change[i];
    }
    all.push_back({static_cast<std::int32_t>(token), logit});
  }
  LogitEffect result;
  if (all.empty()) return result;
  const auto vocabulary = static_cast<double>(all.size());
  for (const LogitEffect::Change& one : all) result.mean += one.change / vocabulary;
  for (const LogitEffect::Change& one : all) {
    result.norm += (one.change - result.mean) * (one.change - result.mean) / vocabulary;
  }
  result.norm = std::sqrt(result.norm);
  // Among equal changes the lower token id comes first.
  const auto falls_more = [](const LogitEffect::Change& a, const LogitEffect::Change& b) {
    return a.change != b.change ? a.change < b.change : a.token < b.token;
  };
  const auto rises_more = [](const LogitEffect::Change& a, const LogitEffect::Change& b) {
    return a.change != b.change ? a.change > b.change : a.token < b.token;
  };
  const auto top = static_cast<std::ptrdiff_t>(
      std::min(all.size(), static_cast<std::size_t>(std::max(count, 0))));
  std::partial_sort(all.begin(), all.begin() + top, all.end(), rises_more);
  for (auto it = all.begin(); it != all.begin() + top && it->change > 0.0; ++it) {
    result.up.push_back(*it);
  }
  std::partial_sort(all.begin(), all.begin() + top, all.end(), falls_more);
  for (auto it = all.begin(); it != all.begin() + top && it->change < 0.0; ++it) {
    result.down.push_back(*it);
  }
  return result;
}

}  // namespace kvloupe
