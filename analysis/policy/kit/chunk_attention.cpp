#include "analysis/policy/kit/chunk_attention.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "analysis/math/numeric/exponentials.h"
#include "analysis/policy/kit/rows.h"

namespace kvloupe {

namespace {
void drop_first(Matrix& matrix, Eigen::Index count) {
  const Matrix rest = matrix.bottomRows(matrix.rows() - count);
  matrix = rest;
}
}  // namespace

ChunkAttention::ChunkAttention(const LayerContext& context, ChunkRule rule)
    : model_(context.model),
      attention_(context.attention),
      rule_(rule),
      heads_(static_cast<std::size_t>(context.model.num_kv_heads)) {
  for (Head& head : heads_) {
    head.keys.resize(0, model_.head_dim);
    head.queries.assign(static_cast<std::size_t>(model_.group_size()), Matrix(0, model_.head_dim));
  }
}

void ChunkAttention::take_up(const StepView& view, int head) {
  Head& own = heads_[static_cast<std::size_t>(head)];
  const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
  const int group = model_.group_size();
  const auto begin = std::lower_bound(cache.tokens.begin(), cache.tokens.end(),
                                      std::max(view.block.first, rule_.first_token));
  const Eigen::Index first = begin - cache.tokens.begin();
  const auto before = static_cast<Eigen::Index>(own.waiting.size());
  const Eigen::Index added = cache.keys.rows() - first;
  own.waiting.insert(own.waiting.end(), begin, cache.tokens.end());
  own.keys.conservativeResize(before + added, Eigen::NoChange);
  own.keys.bottomRows(added) = cache.keys.bottomRows(added);
  for (int i = 0; i < group; ++i) {
    const MatrixView& queries = view.queries[static_cast<std::size_t>(head * group + i)];
    Matrix& waiting = own.queries[static_cast<std::size_t>(i)];
    waiting.conservativeResize(before + added, Eigen::NoChange);
    for (Eigen::Index row = 0; row < added; ++row) {
      waiting.row(before + row) =
          queries.row(cache.tokens[static_cast<std::size_t>(first + row)] - view.block.first);
    }
  }
}

std::vector<double> ChunkAttention::chunk(const Head& head, int query_head, Eigen::Index first,
                                          Eigen::Index count) const {
  const LogitRule rule = rule_.scaled ? attention_.of(query_head) : LogitRule(1.0);
  const Matrix& queries = head.queries[static_cast<std::size_t>(query_head % model_.group_size())];
  Matrix logits = queries.middleRows(first, count) * head.keys.middleRows(first, count).transpose();
  to_logits(logits, rule);
  const double missing = rule_.padded ? static_cast<double>(rule_.chunk - count) : 0.0;
  std::vector<float> received(static_cast<std::size_t>(count), 0.0F);
  for (Eigen::Index row = 0; row < count; ++row) {
    const std::span<float> weights(logits.data() + row * logits.outerStride(), received.size());
    float largest = softmax_shift(largest_of(weights), rule);
    if (missing > 0.0) largest = std::max(largest, 0.0F);
    const double total =
        with_sink(exponentials(weights, largest), static_cast<double>(largest), rule) +
        missing * std::exp(-static_cast<double>(largest));
    add_scaled(received.data(), weights.data(), received.size(), static_cast<float>(1.0 / total));
  }
  std::vector<double> sums(received.begin(), received.end());
  for (double& sum : sums) sum += missing / rule_.chunk;
  return sums;
}

void ChunkAttention::observe(const StepView& view, int head) {
  take_up(view, head);
  Head& own = heads_[static_cast<std::size_t>(head)];
  const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
  own.received.resize(tokens.size(), kUnknown);
  const int group = model_.group_size();
  const auto ready =
      std::max<Eigen::Index>(static_cast<Eigen::Index>(own.waiting.size()) - rule_.hold_back, 0);
  for (Eigen::Index first = 0; first < ready; first += rule_.chunk) {
    const Eigen::Index count = std::min<Eigen::Index>(rule_.chunk, ready - first);
    std::vector<double> mean(static_cast<std::size_t>(count), 0.0);
    for (int i = 0; i < group; ++i) {
      const std::vector<double> sums = chunk(own, head * group + i, first, count);
      for (std::size_t j = 0; j < sums.size(); ++j) mean[j] += sums[j] / group;
    }
    for (Eigen::Index j = 0; j < count; ++j) {
      const std::int32_t token = own.waiting[static_cast<std::size_t>(first + j)];
      const auto row = std::lower_bound(tokens.begin(), tokens.end(), token);
      if (row == tokens.end() || *row != token) continue;  // evicted while it waited
      own.received[static_cast<std::size_t>(row - tokens.begin())] =
          mean[static_cast<std::size_t>(j)];
    }
  }
  own.waiting.erase(own.waiting.begin(), own.waiting.begin() + ready);
  drop_first(own.keys, ready);
  for (Matrix& queries : own.queries) drop_first(queries, ready);
}

void ChunkAttention::retain(int head, const HeadDecision& decision) {
  keep_rows(heads_[static_cast<std::size_t>(head)].received, decision.kept);
}

}  // namespace kvloupe
