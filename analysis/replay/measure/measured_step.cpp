#include "analysis/replay/measure/measured_step.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/math/attention.h"
#include "analysis/math/norms.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/math/perturbation.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

LeavingEntries leaving_entries(const HeadCache& cache, int last_query, const Reach& reach) {
  LeavingEntries leaving;
  // The hidden entries are the first; the last of them may lie within the reach.
  const CacheView whole = cache.whole();
  const auto hidden = whole.tokens.first(static_cast<std::size_t>(cache.hidden()));
  const auto seen = std::lower_bound(hidden.begin(), hidden.end(), first_seen(last_query, reach));
  leaving.tokens.assign(seen, hidden.end());
  if (leaving.tokens.empty()) return leaving;
  const Eigen::Index first = seen - hidden.begin(), count = leaving.count();
  leaving.keys = rows(whole.keys, first, count);
  if (whole.values.rows() > 0) leaving.values = rows(whole.values, first, count);
  if (!whole.log_sizes.empty()) {
    const auto sizes =
        whole.log_sizes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    leaving.log_sizes.assign(sizes.begin(), sizes.end());
  }
  return leaving;
}

MeasuredStep::MeasuredStep(Input input)
    : input_(std::move(input)),
      first_token_(first_seen(input_.block.end - 1, input_.context.model.reach())),
      logits_(static_cast<std::size_t>(group())),
      attention_(static_cast<std::size_t>(group())),
      output_(static_cast<std::size_t>(group())),
      shared_(static_cast<std::size_t>(group())) {
  for (const std::int32_t token : leaving().tokens) kept_.push_back(token - first_token_);
  for (const std::int32_t token : cache().tokens()) kept_.push_back(token - first_token_);
}

bool MeasuredStep::value_aware() const { return has_part(input_.policy, PartKind::value_aware); }

int MeasuredStep::first_query_head() const { return input_.head * group(); }

MatrixView MeasuredStep::prefix_keys() const {
  return rows(view(input_.states.keys[static_cast<std::size_t>(input_.head)]), 0, prefix());
}

MatrixView MeasuredStep::prefix_values() const {
  if (input_.states.values.empty()) return rows(prefix_keys(), 0, 0);
  return rows(view(input_.states.values[static_cast<std::size_t>(input_.head)]), 0, prefix());
}

MatrixView MeasuredStep::seen_keys() const {
  return rows(prefix_keys(), first_token_, prefix() - first_token_);
}

MatrixView MeasuredStep::seen_values() const {
  const MatrixView values = prefix_values();
  return values.rows() == 0 ? values : rows(values, first_token_, prefix() - first_token_);
}

const OutputWeight* MeasuredStep::output_weight(int query_head) const {
  const auto& weights = input_.states.output_weights;
  return weights.empty() ? nullptr : &weights[static_cast<std::size_t>(query_head)];
}

std::span<const float> MeasuredStep::gate(int query_head) const {
  return input_.states.gate(query_head, input_.block.end - 1);
}

MatrixView MeasuredStep::gated_values(int query_head) {
  const std::span<const float> factors = gate(query_head);
  if (factors.empty()) return seen_values();
  if (gated_head_ != query_head) {
    gated_values_ = seen_values();
    multiply_columns(gated_values_, factors);
    gated_head_ = query_head;
  }
  return view(gated_values_);
}

std::span<const float> MeasuredStep::value_out_norms(int query_head, Norm norm) {
  if (!gate(query_head).empty()) {
    const OutputWeight* weight = output_weight(query_head);
    if (weight == nullptr) return {};
    std::vector<float>& norms = gated_norms_[norm == Norm::l1 ? 0 : 1];
    norms = output_norms(gated_values(query_head), *weight, norm);
    return norms;
  }
  const auto& known =
      norm == Norm::l1 ? input_.states.value_norms_l1 : input_.states.value_norms_l2;
  const auto index = static_cast<std::size_t>(query_head);
  if (known.empty() || known[index].empty()) return {};
  return std::span(known[index])
      .first(static_cast<std::size_t>(prefix()))
      .subspan(static_cast<std::size_t>(first_token_));
}

std::span<const float> MeasuredStep::last_query(int query_head) const {
  const auto row = input_.last_queries.row(query_head);
  return {row.data(), static_cast<std::size_t>(row.size())};
}

std::vector<float> MeasuredStep::logits_over(const MatrixView& keys, int query_head) const {
  return attention_logits(last_query(query_head), keys, rule(query_head));
}

const FullAttention* MeasuredStep::from_shared(int query_head) {
  if (input_.shared == nullptr) return nullptr;
  auto& own = shared_[static_cast<std::size_t>(query_head - first_query_head())];
  if (!own) {
    own = input_.shared->attention(place(query_head), [&] {
      FullAttention computed;
      computed.logits = logits_over(seen_keys(), query_head);
      computed.attention = softmax(computed.logits, rule(query_head).sink);
      computed.output = output_of(query_head, computed.attention);
      return computed;
    });
  }
  return own.get();
}

std::span<const float> MeasuredStep::logits(int query_head) {
  if (const FullAttention* known = from_shared(query_head)) return known->logits;
  std::vector<float>& own = logits_[static_cast<std::size_t>(query_head - first_query_head())];
  if (own.empty()) own = logits_over(seen_keys(), query_head);
  return own;
}

std::span<const double> MeasuredStep::attention(int query_head) {
  if (const FullAttention* known = from_shared(query_head)) return known->attention;
  std::vector<double>& own = attention_[static_cast<std::size_t>(query_head - first_query_head())];
  if (own.empty()) own = softmax(logits(query_head), rule(query_head).sink);
  return own;
}

std::vector<double> MeasuredStep::output_of(int query_head, std::span<const double> attention) {
  const MatrixView values = gated_values(query_head);
  if (values.rows() == 0) return {};
  std::vector<double> sum(static_cast<std::size_t>(values.cols()), 0.0);
  std::vector<std::int32_t> all(attention.size());
  std::iota(all.begin(), all.end(), 0);
  add_rows(sum.data(), values.data(), values.outerStride(), all, attention, sum.size());
  return sum;
}

std::span<const double> MeasuredStep::output(int query_head) {
  if (const FullAttention* known = from_shared(query_head)) return known->output;
  std::vector<double>& own = output_[static_cast<std::size_t>(query_head - first_query_head())];
  if (own.empty()) own = output_of(query_head, attention(query_head));
  return own;
}

std::vector<float> MeasuredStep::cache_logits(int query_head) const {
  const auto of = [&](const MatrixView& keys, std::span<const float> log_sizes) {
    std::vector<float> result = logits_over(keys, query_head);
    for (std::size_t i = 0; i < log_sizes.size(); ++i) result[i] += log_sizes[i];
    return result;
  };
  const CacheView present = input_.cache.view();
  std::vector<float> result = of(present.keys, present.log_sizes);
  if (leaving().tokens.empty()) return result;
  const std::vector<float> first = of(view(leaving().keys), leaving().log_sizes);
  result.insert(result.begin(), first.begin(), first.end());
  return result;
}

MatrixView MeasuredStep::cache_values(int query_head) {
  const MatrixView present = input_.cache.view().values;
  const std::span<const float> factors = gate(query_head);
  const Eigen::Index leaves = leaving().count();
  if (leaves == 0 && factors.empty()) return present;
  if (cache_values_.size() == 0 || !factors.empty()) {
    cache_values_.resize(leaves + present.rows(), present.cols());
    if (leaves > 0) cache_values_.topRows(leaves) = leaving().values;
    cache_values_.bottomRows(present.rows()) = present;
    multiply_columns(cache_values_, factors);
  }
  return view(cache_values_);
}

}  // namespace kvloupe
