#include "analysis/measure/asked_change.h"

#include <algorithm>
#include <cmath>

#include "analysis/metric/attention.h"
#include "analysis/metric/gated_values.h"
#include "analysis/metric/perturbation.h"

namespace kvloupe {

namespace {
/// What becomes of a query's attention A: A' − A over the tokens that it sees.
struct CutRow {
  double kept = 0.0;           // S: with the sink's share
  std::vector<double> change;  // [seen]
};

/// Both softmaxes are made of the same exponentials; where all that is kept underflows beside the
/// largest logit, its own largest takes that one's place.
CutRow cut_row(std::span<const float> logits, std::span<const double> full,
               std::span<const std::int32_t> kept, double sink) {
  CutRow row;
  row.change.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) row.change[i] = -full[i];
  std::vector<float> of_kept;
  of_kept.reserve(kept.size());
  for (const std::int32_t at : kept) of_kept.push_back(logits[static_cast<std::size_t>(at)]);
  row.kept = sink_share(logits, sink);
  for (const std::int32_t at : kept) row.kept += full[static_cast<std::size_t>(at)];
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
                       std::span<const int> queries, const Eigen::MatrixXd* effects,
                       std::size_t replays, const QueryRows* rows)
    : states_(states), context_(context), queries_(queries), effects_(effects), rows_(rows) {
  whole_.resize(static_cast<std::size_t>(context.model.num_kv_heads));
  sums_.resize(replays * whole_.size());
  if (states.output_weights.empty()) return;
  const auto count = static_cast<Eigen::Index>(queries.size());
  for (Whole& whole : whole_) whole.output.setZero(count, context.model.hidden_size);
  for (Sums& sums : sums_) sums.change.setZero(count, context.model.hidden_size);
}

void AskedLayer::add(int head, std::span<const FoundAt> blocks) {
  std::vector<const FoundAt*> of_query;
  for (const FoundAt& block : blocks) {
    of_query.insert(of_query.end(), block.count, &block);
    for (std::size_t replay = 0; replay < block.found.size(); ++replay) {
      sums_of(replay, static_cast<std::size_t>(head)).merged |=
          block.found[replay].merged != nullptr;
    }
  }
  const int group = context_.model.group_size();
  for (std::size_t begin = 0; begin < of_query.size(); begin += kTile) {
    const auto tile = std::span(of_query).subspan(begin, std::min(kTile, of_query.size() - begin));
    for (int i = 0; i < group; ++i) {
      add_query_head(head * group + i, blocks.front().first + begin, tile);
    }
  }
}

Matrix AskedLayer::changes_of(int query_head, std::span<const FullRow> asked, std::size_t replay,
                              Sums& sums) const {
  const auto q = static_cast<std::size_t>(query_head);
  const auto head = static_cast<std::size_t>(context_.model.head_of(query_head));
  const LogitRule rule = context_.attention.of(query_head);
  const Matrix& values = states_.values[head];
  const bool norms = !states_.output_weights.empty() && !states_.value_norms_l1.empty();
  const int begin = asked.front().seen, end = asked.back().query + 1;
  Matrix change = Matrix::Zero(std::ssize(asked), end - begin);
  Matrix changes = Matrix::Zero(std::ssize(asked), values.cols());
  bool any_unmerged = false;
  for (Eigen::Index r = 0; r < std::ssize(asked); ++r) {
    const auto& [at_block, query, seen, logits, full, own_query] =
        asked[static_cast<std::size_t>(r)];
    const FoundEntries& found = at_block->found[replay];
    const auto from = std::lower_bound(found.tokens.begin(), found.tokens.end(), seen);
    const auto to = std::upper_bound(from, found.tokens.end(), query);
    std::vector<std::int32_t> kept(from, to);
    for (std::int32_t& token : kept) token -= seen;
    const CutRow row = cut_row(logits, full, kept, rule.sink);
    sums.kept += row.kept;
    if (norms && found.merged == nullptr) {
      const std::vector<float> gated =
          states_.gates.empty() ? std::vector<float>()
                                : gated_norms(query_head, asked[static_cast<std::size_t>(r)]);
      // θ = Σ over evicted of A_i‖v_i W_O‖ + (1 − S) Σ over kept of A'_i‖v_i W_O‖.
      std::size_t next = 0;
      for (std::size_t i = 0; i < full.size(); ++i) {
        const double norm = gated.empty()
                                ? states_.value_norms_l1[q][static_cast<std::size_t>(seen) + i]
                                : gated[i];
        const bool stays = next < kept.size() && kept[next] == static_cast<std::int32_t>(i);
        if (stays) ++next;
        sums.theta += norm * (stays ? (1.0 - row.kept) * (full[i] + row.change[i]) : full[i]);
      }
    }
    if (found.merged == nullptr) {
      any_unmerged = true;
      for (std::size_t i = 0; i < full.size(); ++i) {
        change(r, seen - begin + static_cast<Eigen::Index>(i)) = static_cast<float>(row.change[i]);
      }
      continue;
    }
    // The cache's own keys and values are none of the trace's.
    const auto at = static_cast<Eigen::Index>(from - found.tokens.begin());
    const auto held = static_cast<Eigen::Index>(kept.size());
    std::vector<float> own =
        attention_logits(own_query, kvloupe::rows(found.merged->keys, at, held), rule);
    for (std::size_t j = 0; j < own.size() && !found.merged->log_sizes.empty(); ++j) {
      own[j] += found.merged->log_sizes[static_cast<std::size_t>(at) + j];
    }
    const std::vector<double> attention = softmax(own, rule.sink);
    Eigen::VectorXd moved = Eigen::VectorXd::Zero(values.cols());
    for (std::size_t i = 0; i < full.size(); ++i) {
      moved -= full[i] * values.row(seen + static_cast<Eigen::Index>(i)).cast<double>().transpose();
    }
    for (std::size_t j = 0; j < attention.size(); ++j) {
      moved +=
          attention[j] *
          found.merged->values.row(at + static_cast<Eigen::Index>(j)).cast<double>().transpose();
    }
    changes.row(r) = moved.cast<float>().transpose();
  }
  if (any_unmerged) changes.noalias() += change * kvloupe::rows(view(values), begin, end - begin);
  return changes;
}

std::span<const float> AskedLayer::asking(std::size_t query_head, int query) const {
  const auto of = [](const Matrix& matrix, Eigen::Index row) {
    return std::span(matrix.data() + row * matrix.cols(), static_cast<std::size_t>(matrix.cols()));
  };
  if (rows_ == nullptr) return of(states_.queries[query_head], query);
  return of(rows_->rows,
            static_cast<Eigen::Index>(query_head) * rows_->count + (query - rows_->first));
}

void AskedLayer::multiply_by_gate(int query_head, std::span<const FullRow> asked,
                                  Matrix& outputs) const {
  for (Eigen::Index r = 0; r < outputs.rows() && !states_.gates.empty(); ++r) {
    const std::span<const float> gate =
        states_.gate(query_head, asked[static_cast<std::size_t>(r)].query);
    outputs.row(r).array() *=
        Eigen::Map<const Eigen::RowVectorXf>(gate.data(), std::ssize(gate)).array();
  }
}

std::vector<float> AskedLayer::gated_norms(int query_head, const FullRow& asked) const {
  const auto head = static_cast<std::size_t>(context_.model.head_of(query_head));
  Matrix values = kvloupe::rows(view(states_.values[head]), asked.seen, std::ssize(asked.full));
  multiply_columns(values, states_.gate(query_head, asked.query));
  return output_norms(view(values), states_.output_weights[static_cast<std::size_t>(query_head)],
                      Norm::l1);
}

void AskedLayer::add_query_head(int query_head, std::size_t first,
                                std::span<const FoundAt* const> found) {
  const auto q = static_cast<std::size_t>(query_head);
  const ModelInfo& model = context_.model;
  const auto head = static_cast<std::size_t>(model.head_of(query_head));
  const LogitRule rule = context_.attention.of(query_head);
  const Matrix& keys = states_.keys[head];
  const Matrix& values = states_.values[head];
  const bool weights = !states_.output_weights.empty();
  // Attention of all queries at once over the tokens up to the last query's.
  const std::size_t count = found.size();
  const int end = queries_[first + count - 1] + 1;
  const int begin = first_seen(queries_[first], model.reach());
  const auto rows = static_cast<Eigen::Index>(count);
  std::vector<FullRow> asked(count);
  Matrix queries(rows, keys.cols());
  for (Eigen::Index r = 0; r < rows; ++r) {
    FullRow& one = asked[static_cast<std::size_t>(r)];
    one.at = found[static_cast<std::size_t>(r)];
    one.query = queries_[first + static_cast<std::size_t>(r)];
    one.seen = first_seen(one.query, model.reach());
    one.asked = asking(q, one.query);
    queries.row(r) = Eigen::Map<const Eigen::RowVectorXf>(one.asked.data(), keys.cols());
  }
  // One product reads the keys once for all queries, not once for each.
  Matrix logits = queries * kvloupe::rows(view(keys), begin, end - begin).transpose();
  to_logits(logits, rule);
  Matrix full = Matrix::Zero(rows, end - begin);
  for (Eigen::Index r = 0; r < rows; ++r) {
    FullRow& one = asked[static_cast<std::size_t>(r)];
    one.logits = std::span(logits.data() + r * logits.cols() + (one.seen - begin),
                           static_cast<std::size_t>(one.query + 1 - one.seen));
    one.full = softmax(one.logits, rule.sink);
    for (std::size_t i = 0; i < one.full.size(); ++i) {
      full(r, one.seen - begin + static_cast<Eigen::Index>(i)) = static_cast<float>(one.full[i]);
    }
  }
  Matrix outputs = full * kvloupe::rows(view(values), begin, end - begin);
  multiply_by_gate(query_head, asked, outputs);
  Whole& whole = whole_[head];
  whole.norm += outputs.cast<double>().squaredNorm();
  Matrix room;
  const Matrix* weight = weights ? &states_.output_weights[q].floats(room) : nullptr;
  const auto place = static_cast<Eigen::Index>(first);
  if (weights) whole.output.middleRows(place, rows) += (outputs * *weight).cast<double>();
  for (std::size_t replay = 0; replay < found.front()->found.size(); ++replay) {
    Sums& sums = sums_of(replay, head);
    Matrix changes = changes_of(query_head, asked, replay, sums);
    multiply_by_gate(query_head, asked, changes);
    sums.error += changes.cast<double>().squaredNorm();
    if (!weights) continue;
    const Eigen::MatrixXd moved = (changes * *weight).cast<double>();
    sums.change.middleRows(place, rows) += moved;
    sums.l1 += moved.lpNorm<1>();
    if (effects_ != nullptr && effects_->size() > 0) {
      sums.effect += moved.cwiseProduct(effects_->middleRows(place, rows)).sum();
    }
  }
}

AskedHead AskedLayer::head(int head, std::size_t replay) const {
  const auto place = static_cast<std::size_t>(head);
  const Sums& sums = sums_[replay * whole_.size() + place];
  const auto queries = static_cast<double>(queries_.size());
  const double rows = queries * context_.model.group_size();
  AskedHead of;
  if (queries_.empty()) return of;
  of.kept_attention = sums.kept / rows;
  const double norm = whole_[place].norm;
  if (norm > 0.0) of.output_error = sums.error / norm;
  if (states_.output_weights.empty()) return of;
  of.perturbation_l1 = sums.l1 / rows;
  if (!sums.merged && !states_.value_norms_l1.empty()) of.bound_l1 = sums.theta / rows;
  of.squared_change = sums.change.squaredNorm();
  if (effects_ != nullptr && effects_->size() > 0) of.effect = sums.effect / queries;
  return of;
}

Eigen::MatrixXd AskedLayer::output() const {
  Eigen::MatrixXd all = whole_.front().output;
  for (std::size_t head = 1; head < whole_.size(); ++head) all += whole_[head].output;
  return all;
}

Eigen::MatrixXd AskedLayer::change(std::size_t replay) const {
  const std::size_t first = replay * whole_.size();
  Eigen::MatrixXd all = sums_[first].change;
  for (std::size_t head = 1; head < whole_.size(); ++head) all += sums_[first + head].change;
  return all;
}

}  // namespace kvloupe
