#include "analysis/measure/asked_change.h"

#include <algorithm>
#include <cmath>

#include "analysis/metric/attention.h"
#include "analysis/metric/perturbation.h"

namespace kvloupe {

namespace {
/// Rows of a tile are so many queries, each with all keys before it.
constexpr std::size_t kTile = 64;

/// A, and what becomes of it: A' − A, of one query over the tokens that it sees.
struct Row {
  double kept = 0.0;                 // S: with the sink's share
  std::vector<double> full, change;  // [seen]
};

/// Both softmaxes are made of the same exponentials; where all that is kept underflows beside the
/// largest logit, its own largest takes that one's place.
Row row_of(std::span<const float> logits, std::span<const std::int32_t> kept, double sink) {
  Row row;
  row.full = softmax(logits, sink);
  row.change.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) row.change[i] = -row.full[i];
  std::vector<float> of_kept;
  of_kept.reserve(kept.size());
  for (const std::int32_t at : kept) of_kept.push_back(logits[static_cast<std::size_t>(at)]);
  row.kept = sink_share(logits, sink);
  for (const std::int32_t at : kept) row.kept += row.full[static_cast<std::size_t>(at)];
  row.kept = std::min(row.kept, 1.0);
  const std::vector<double> cut = softmax(of_kept, sink);
  for (std::size_t j = 0; j < kept.size(); ++j) {
    row.change[static_cast<std::size_t>(kept[j])] += cut[j];
  }
  if (kept.size() == logits.size()) {  // nothing is gone, whatever rounding says
    row.kept = 1.0;
    std::fill(row.change.begin(), row.change.end(), 0.0);
  }
  return row;
}
}  // namespace

AskedLayer::AskedLayer(const LayerStates& states, const LayerContext& context,
                       std::span<const int> queries, const Eigen::MatrixXd* effects)
    : states_(states), context_(context), queries_(queries), effects_(effects) {
  heads_.resize(static_cast<std::size_t>(context.model.num_kv_heads));
  if (states.output_weights.empty()) return;
  for (Sums& sums : heads_) {
    sums.output.setZero(static_cast<Eigen::Index>(queries.size()), context.model.hidden_size);
    sums.change = sums.output;
  }
}

void AskedLayer::add(int head, std::size_t first, std::size_t count, const FoundEntries& found) {
  Sums& sums = heads_[static_cast<std::size_t>(head)];
  sums.merged |= found.merged != nullptr;
  const int group = context_.model.group_size();
  for (std::size_t begin = first; begin < first + count; begin += kTile) {
    const std::size_t rows = std::min(kTile, first + count - begin);
    for (int i = 0; i < group; ++i) add_query_head(head * group + i, begin, rows, found, sums);
  }
}

void AskedLayer::add_query_head(int query_head, std::size_t first, std::size_t count,
                                const FoundEntries& found, Sums& sums) {
  const auto q = static_cast<std::size_t>(query_head);
  const ModelInfo& model = context_.model;
  const auto head = static_cast<std::size_t>(model.head_of(query_head));
  const LogitRule rule = context_.attention.of(query_head);
  const Matrix& keys = states_.keys[head];
  const Matrix& values = states_.values[head];
  const bool weights = !states_.output_weights.empty();
  const Eigen::Index d = keys.cols();
  // Attention of all queries at once, and its change, over the tokens up to the last query's.
  const int end = queries_[first + count - 1] + 1;
  const int begin = first_seen(queries_[first], model.sliding_window);
  const auto rows = static_cast<Eigen::Index>(count);
  Matrix full = Matrix::Zero(rows, end - begin);
  Matrix change = full;
  Matrix outputs(rows, d), changes(rows, d);
  for (Eigen::Index r = 0; r < rows; ++r) {
    const int query = queries_[first + static_cast<std::size_t>(r)];
    const int seen = first_seen(query, model.sliding_window);
    const auto asked = states_.queries[q].row(query);
    const std::span<const float> one(asked.data(), static_cast<std::size_t>(d));
    const std::vector<float> logits =
        attention_logits(one, kvloupe::rows(view(keys), seen, query + 1 - seen), rule);
    const auto from = std::lower_bound(found.tokens.begin(), found.tokens.end(), seen);
    const auto to = std::upper_bound(from, found.tokens.end(), query);
    std::vector<std::int32_t> kept(from, to);
    for (std::int32_t& token : kept) token -= seen;
    const Row row = row_of(logits, kept, rule.sink);
    sums.kept += row.kept;
    for (std::size_t i = 0; i < row.full.size(); ++i) {
      const Eigen::Index column = seen - begin + static_cast<Eigen::Index>(i);
      full(r, column) = static_cast<float>(row.full[i]);
      change(r, column) = static_cast<float>(row.change[i]);
    }
    if (weights && found.merged == nullptr && !states_.value_norms_l1.empty()) {
      // θ = Σ over evicted of A_i‖v_i W_O‖ + (1 − S) Σ over kept of A'_i‖v_i W_O‖.
      std::size_t next = 0;
      for (std::size_t i = 0; i < row.full.size(); ++i) {
        const double norm = states_.value_norms_l1[q][static_cast<std::size_t>(seen) + i];
        const bool stays = next < kept.size() && kept[next] == static_cast<std::int32_t>(i);
        if (stays) ++next;
        sums.theta +=
            norm * (stays ? (1.0 - row.kept) * (row.full[i] + row.change[i]) : row.full[i]);
      }
    }
    if (found.merged == nullptr) continue;
    // The cache's own keys and values are none of the trace's.
    const auto at = static_cast<Eigen::Index>(from - found.tokens.begin());
    const auto held = static_cast<Eigen::Index>(kept.size());
    std::vector<float> own =
        attention_logits(one, kvloupe::rows(found.merged->keys, at, held), rule);
    for (std::size_t j = 0; j < own.size() && !found.merged->log_sizes.empty(); ++j) {
      own[j] += found.merged->log_sizes[static_cast<std::size_t>(at) + j];
    }
    const std::vector<double> attention = softmax(own, rule.sink);
    Eigen::VectorXd moved = Eigen::VectorXd::Zero(d);
    for (std::size_t i = 0; i < row.full.size(); ++i) {
      moved -=
          row.full[i] * values.row(seen + static_cast<Eigen::Index>(i)).cast<double>().transpose();
    }
    for (std::size_t j = 0; j < attention.size(); ++j) {
      moved +=
          attention[j] *
          found.merged->values.row(at + static_cast<Eigen::Index>(j)).cast<double>().transpose();
    }
    changes.row(r) = moved.cast<float>().transpose();
  }
  const MatrixView seen_values = kvloupe::rows(view(values), begin, end - begin);
  outputs.noalias() = full * seen_values;
  if (found.merged == nullptr) changes.noalias() = change * seen_values;
  sums.norm += outputs.cast<double>().squaredNorm();
  sums.error += changes.cast<double>().squaredNorm();
  if (!weights) return;
  Matrix room;
  const Matrix& weight = states_.output_weights[q].floats(room);
  const auto place = static_cast<Eigen::Index>(first);
  sums.output.middleRows(place, rows) += (outputs * weight).cast<double>();
  const Eigen::MatrixXd moved = (changes * weight).cast<double>();
  sums.change.middleRows(place, rows) += moved;
  sums.l1 += moved.lpNorm<1>();
  if (effects_ != nullptr && effects_->size() > 0) {
    sums.effect += moved.cwiseProduct(effects_->middleRows(place, rows)).sum();
  }
}

AskedHead AskedLayer::head(int head) const {
  const Sums& sums = heads_[static_cast<std::size_t>(head)];
  const auto queries = static_cast<double>(queries_.size());
  const double rows = queries * context_.model.group_size();
  AskedHead of;
  if (queries_.empty()) return of;
  of.kept_attention = sums.kept / rows;
  if (sums.norm > 0.0) of.output_error = sums.error / sums.norm;
  if (states_.output_weights.empty()) return of;
  of.perturbation_l1 = sums.l1 / rows;
  if (!sums.merged && !states_.value_norms_l1.empty()) of.bound_l1 = sums.theta / rows;
  of.squared_change = sums.change.squaredNorm();
  if (effects_ != nullptr && effects_->size() > 0) of.effect = sums.effect / queries;
  return of;
}

Eigen::MatrixXd AskedLayer::sum(Eigen::MatrixXd Sums::*part) const {
  Eigen::MatrixXd all = heads_.front().*part;
  for (std::size_t head = 1; head < heads_.size(); ++head) all += heads_[head].*part;
  return all;
}

Eigen::MatrixXd AskedLayer::output() const { return sum(&Sums::output); }
Eigen::MatrixXd AskedLayer::change() const { return sum(&Sums::change); }

}  // namespace kvloupe
