#include "tests/naive/naive_measures.h"
#include "tests/naive/naive_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::naive {

std::map<int, double> QueryHeadStates::attention(int token, const std::vector<int>& tokens) const {
  const Matrix& query = states.queries[query_head];
  const Matrix& key = states.keys[model.head_of(query_head)];
  std::map<int, double> result;
  const double cap = attention_rule.softcap;
  const bool sink = !attention_rule.sink_logits.empty();
  const double sink_logit =
      sink ? static_cast<double>(attention_rule.sink_logits[query_head]) : 0.0;
  double largest = sink ? sink_logit : -std::numeric_limits<double>::infinity();
  for (const int other : tokens) {
    double logit = 0.0;
    for (int c = 0; c < model.head_dim; ++c) {
      logit += static_cast<double>(query(token, c)) * static_cast<double>(key(other, c));
    }
    const double scaled = logit * attention_rule.scale;
    result[other] = cap > 0.0 ? cap * std::tanh(scaled / cap) : scaled;
    largest = std::max(largest, result[other]);
  }
  double sum = sink ? std::exp(sink_logit - largest) : 0.0;
  for (auto& [other, value] : result) sum += value = std::exp(value - largest);
  for (auto& [other, value] : result) value /= sum;
  return result;
}

std::vector<double> QueryHeadStates::value(int token) const {
  std::vector<double> result;
  for (int c = 0; c < model.value_width(); ++c) {
    result.push_back(states.values[model.head_of(query_head)](token, c));
  }
  return result;
}

double QueryHeadStates::out_norm_l1(int token) const {
  const std::vector<double> v = value(token);
  double norm = 0.0;
  for (int column = 0; column < model.hidden_size; ++column) {
    double output = 0.0;
    for (int c = 0; c < model.value_width(); ++c) {
      output += v[c] * static_cast<double>(states.output_weights[query_head](c, column));
    }
    norm += std::abs(output);
  }
  return norm;
}

double QueryHeadStates::out_norm_l2(int token) const {
  const std::vector<double> v = value(token);
  double square = 0.0;
  for (int column = 0; column < model.hidden_size; ++column) {
    double output = 0.0;
    for (int c = 0; c < model.value_width(); ++c) {
      output += v[c] * static_cast<double>(states.output_weights[query_head](c, column));
    }
    square += output * output;
  }
  return std::sqrt(square);
}

namespace {
/// The tokens that the query at `token` sees.
std::vector<int> prefix(const ModelInfo& model, int token) {
  std::vector<int> tokens;
  for (int i = 0; i <= token; ++i) {
    if (sees(model, token, i)) tokens.push_back(i);
  }
  return tokens;
}

std::vector<double> mean_value(const QueryHeadStates& head, const std::map<int, double>& weights) {
  std::vector<double> sum(static_cast<std::size_t>(head.model.value_width()), 0.0);
  double all = 0.0;
  for (const auto& [token, weight] : weights) {
    const std::vector<double> v = head.value(token);
    for (std::size_t c = 0; c < v.size(); ++c) sum[c] += weight * v[c];
    all += weight;
  }
  for (double& x : sum) x /= all;
  return sum;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0.0;
  for (std::size_t c = 0; c < a.size(); ++c) square += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(square);
}
}  // namespace

TwoStages two_stages(const QueryHeadStates& head, int token, const std::set<int>& stage_one,
                     const std::set<int>& stage_two) {
  const std::map<int, double> attention = head.attention(token, prefix(head.model, token));
  TwoStages result;
  for (const int i : stage_one) result.mass += attention.at(i);
  const double factor = 2.0 - 1.0 / result.mass;
  double least_l1 = std::numeric_limits<double>::infinity();
  double least_l2 = least_l1;
  for (const int i : prefix(head.model, token)) {
    least_l1 = std::min(least_l1, head.out_norm_l1(i));
    least_l2 = std::min(least_l2, head.out_norm_l2(i));
  }
  for (const int i : prefix(head.model, token)) {
    const double a = attention.at(i);
    const double l1 = head.out_norm_l1(i);
    const double l2 = head.out_norm_l2(i);
    const bool one = stage_one.count(i) == 1;
    const bool two = stage_two.count(i) == 1;
    result.bound_l1 += a * l1 - (one || two ? factor * a * l1 : 0.0);
    result.bound_l2 += a * l2 - (one || two ? factor * a * l2 : 0.0);
    result.relaxed_l1 += a * l1 - (one ? factor * a * l1 : two ? factor * a * least_l1 : 0.0);
    result.relaxed_l2 += a * l2 - (one ? factor * a * l2 : two ? factor * a * least_l2 : 0.0);
  }
  if (stage_one.empty()) {
    result.bound_l1 = result.bound_l2 = std::numeric_limits<double>::infinity();
  }
  if (!(result.mass > 0.5)) {
    result.relaxed_l1 = result.relaxed_l2 = std::numeric_limits<double>::quiet_NaN();
  }
  return result;
}

int entries_for_mass(const std::map<int, double>& attention, double mass) {
  std::vector<double> all;
  for (const auto& [token, weight] : attention) all.push_back(weight);
  std::sort(all.rbegin(), all.rend());
  double sum = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i];
    if (sum > mass) return static_cast<int>(i) + 1;
  }
  return static_cast<int>(all.size());
}

EvictionError eviction_error(const QueryHeadStates& head, const std::map<int, double>& h,
                             const std::set<int>& retained) {
  const std::vector<double> output = mean_value(head, h);
  EvictionError result;
  std::map<int, double> left;
  for (const auto& [token, weight] : h) {
    if (retained.count(token) == 1) {
      left[token] = weight;
      continue;
    }
    std::map<int, double> others = h;
    others.erase(token);
    result.sum += distance(output, mean_value(head, others));
  }
  result.joint = distance(output, mean_value(head, left));
  return result;
}

double output_norm(const QueryHeadStates& head, int token) {
  const std::vector<double> output =
      mean_value(head, head.attention(token, prefix(head.model, token)));
  return distance(output, std::vector<double>(output.size(), 0.0));
}

}  // namespace kvloupe::naive
