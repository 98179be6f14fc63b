#include "analysis/replay/measure/asked_change.h"

#include <algorithm>
#include <utility>

#include "analysis/math/attention.h"
#include "analysis/math/norms.h"
#include "analysis/math/perturbation.h"

namespace kvloupe {

namespace {
/// Rows of a tile, each a query of a query head with all keys before it: one product reads the
/// keys, or the values, once for all of them.
constexpr std::size_t kTileRows = 256;
/// W_O of a head's query heads is widened once for all tiles if it takes at most so many numbers.
constexpr Eigen::Index kMostWidened = Eigen::Index{1} << 22;

/// A' of the entries that a query finds, and their share of the whole attention.
struct CutRow {
  double kept = 0.0;        // S: with the sink's share
  std::vector<double> cut;  // [kept]
};

CutRow cut_row(std::span<const float> logits, std::span<const double> full,
               std::span<const std::int32_t> kept, double sink) {
  CutRow row;
  row.kept = sink_share(logits, sink);
  for (const std::int32_t at : kept) row.kept += full[static_cast<std::size_t>(at)];
  row.cut = renormalised(logits, full, kept, row.kept, sink);
  row.kept = std::min(row.kept, 1.0);
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

void AskedLayer::add(int head, std::span<const AskedBlock> blocks) {
  if (blocks.empty()) return;
  FoundByRow found;
  for (const AskedBlock& block : blocks) {
    for (std::size_t replay = 0; replay < block.found.size(); ++replay) {
      sums_of(replay, static_cast<std::size_t>(head)).merged |=
          block.found[replay].merged != nullptr;
    }
    found.insert(found.end(), block.count, block.found);
  }
  const auto group = static_cast<std::size_t>(context_.model.group_size());
  const std::size_t rows = std::max<std::size_t>(kTileRows / group, 1);
  const OutputWeight* own = states_.output_weights.empty()
                                ? nullptr
                                : &states_.output_weights[static_cast<std::size_t>(head) * group];
  std::vector<Matrix> rooms(group);
  std::vector<const Matrix*> weights;
  const auto numbers =
      static_cast<Eigen::Index>(group) * states_.values[0].cols() * context_.model.hidden_size;
  for (std::size_t i = 0; own != nullptr && numbers <= kMostWidened && i < group; ++i) {
    weights.push_back(&own[i].floats(rooms[i]));
  }
  for (std::size_t begin = 0; begin < found.size(); begin += rows) {
    const auto from = found.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = static_cast<std::ptrdiff_t>(std::min(rows, found.size() - begin));
    add_tile(head, blocks.front().first + begin, {from, from + count},
             [&](std::size_t i) -> const Matrix* {
               if (own == nullptr) return nullptr;
               return weights.empty() ? &own[i].floats(rooms[0]) : weights[i];
             });
  }
}

double AskedLayer::bound_of(int query_head, const FullRow& asked,
                            std::span<const std::int32_t> kept, const std::vector<double>& cut,
                            double mass) const {
  std::vector<float> gated;
  if (!states_.gates.empty()) gated = gated_norms(query_head, asked);
  const float* const norms =
      gated.empty()
          ? states_.value_norms_l1[static_cast<std::size_t>(query_head)].data() + asked.seen
          : gated.data();
  double evicted = 0.0, stays = 0.0;
  std::size_t i = 0;
  const auto evict_until = [&](std::size_t end) {
    for (; i < end; ++i) evicted += static_cast<double>(norms[i]) * asked.full[i];
  };
  for (std::size_t j = 0; j < kept.size(); ++j) {
    const auto row = static_cast<std::size_t>(kept[j]);
    evict_until(row);
    stays += static_cast<double>(norms[row]) * cut[j];
    i = row + 1;
  }
  evict_until(asked.full.size());
  return evicted + (1.0 - mass) * stays;
}

Eigen::RowVectorXf AskedLayer::merged_change(int query_head, const FullRow& asked,
                                             const CacheView& held, Eigen::Index first,
                                             Eigen::Index count) const {
  const LogitRule rule = context_.attention.of(query_head);
  const Matrix& values =
      states_.values[static_cast<std::size_t>(context_.model.head_of(query_head))];
  std::vector<float> own =
      attention_logits(asked.asked, kvloupe::rows(held.keys, first, count), rule);
  for (std::size_t j = 0; j < own.size() && !held.log_sizes.empty(); ++j) {
    own[j] += held.log_sizes[static_cast<std::size_t>(first) + j];
  }
  const std::vector<double> attention = softmax(own, rule.sink);
  Eigen::RowVectorXd moved = Eigen::RowVectorXd::Zero(values.cols());
  for (std::size_t i = 0; i < asked.full.size(); ++i) {
    moved -= asked.full[i] * values.row(asked.seen + static_cast<Eigen::Index>(i)).cast<double>();
  }
  for (std::size_t j = 0; j < attention.size(); ++j) {
    moved += attention[j] * held.values.row(first + static_cast<Eigen::Index>(j)).cast<double>();
  }
  return moved.cast<float>();
}

Matrix AskedLayer::changes_of(int head, std::span<const FullRow> asked, const Matrix& full,
                              const FoundByRow& found, std::size_t replay, Sums& sums) const {
  const Matrix& values = states_.values[static_cast<std::size_t>(head)];
  const bool norms = !states_.output_weights.empty() && !states_.value_norms_l1.empty();
  const int begin = asked.front().seen;
  Matrix change = -full;  // A' − A over the tokens that any row sees
  std::vector<std::pair<Eigen::Index, Eigen::RowVectorXf>> merged;
  for (Eigen::Index r = 0; r < std::ssize(asked); ++r) {
    const FullRow& one = asked[static_cast<std::size_t>(r)];
    const LogitRule rule = context_.attention.of(one.query_head);
    const FoundEntries& entries = found[static_cast<std::size_t>(r) % found.size()][replay];
    const auto from = std::lower_bound(entries.tokens.begin(), entries.tokens.end(), one.seen);
    const auto to = std::upper_bound(from, entries.tokens.end(), one.query);
    std::vector<std::int32_t> kept(from, to);
    for (std::int32_t& token : kept) token -= one.seen;
    CutRow row = cut_row(one.logits, one.full, kept, rule.sink);
    auto changed = change.row(r).segment(one.seen - begin, std::ssize(one.full));
    if (kept.size() == one.full.size()) {  // nothing is gone, whatever rounding says
      row = {1.0, one.full};
      changed.setZero();
    }
    for (std::size_t j = 0; j < kept.size(); ++j) {
      const std::int32_t at = kept[j];
      changed[at] = static_cast<float>(row.cut[j] - one.full[static_cast<std::size_t>(at)]);
    }
    sums.kept += row.kept;
    if (entries.merged != nullptr) {
      merged.emplace_back(r, merged_change(one.query_head, one, *entries.merged,
                                           from - entries.tokens.begin(), std::ssize(kept)));
    } else if (norms) {
      sums.theta += bound_of(one.query_head, one, kept, row.cut, row.kept);
    }
  }
  Matrix changes(std::ssize(asked), values.cols());
  changes.noalias() = change * kvloupe::rows(view(values), begin, change.cols());
  for (const auto& [r, own] : merged) changes.row(r) = own;
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

void AskedLayer::multiply_by_gate(std::span<const FullRow> asked, Matrix& outputs) const {
  for (Eigen::Index r = 0; r < outputs.rows() && !states_.gates.empty(); ++r) {
    const FullRow& one = asked[static_cast<std::size_t>(r)];
    const std::span<const float> gate = states_.gate(one.query_head, one.query);
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

void AskedLayer::add_tile(int head, std::size_t first, const FoundByRow& found,
                          const std::function<const Matrix*(std::size_t)>& weight_of) {
  const ModelInfo& model = context_.model;
  const auto place_of_head = static_cast<std::size_t>(head);
  const auto group = static_cast<std::size_t>(model.group_size());
  const Matrix& keys = states_.keys[place_of_head];
  const Matrix& values = states_.values[place_of_head];
  // Attention of all queries at once over the tokens up to the last query's.
  const std::size_t count = found.size();
  const int end = queries_[first + count - 1] + 1;
  const int begin = first_seen(queries_[first], model.reach());
  const auto rows = static_cast<Eigen::Index>(count);
  std::vector<FullRow> asked(group * count);  // query head by query head
  Matrix queries(std::ssize(asked), keys.cols());
  for (std::size_t r = 0; r < asked.size(); ++r) {
    FullRow& one = asked[r];
    one.query_head = head * model.group_size() + static_cast<int>(r / count);
    one.query = queries_[first + r % count];
    one.seen = first_seen(one.query, model.reach());
    one.asked = asking(static_cast<std::size_t>(one.query_head), one.query);
    queries.row(static_cast<Eigen::Index>(r)) =
        Eigen::Map<const Eigen::RowVectorXf>(one.asked.data(), keys.cols());
  }
  Matrix logits = queries * kvloupe::rows(view(keys), begin, end - begin).transpose();
  Matrix full = Matrix::Zero(logits.rows(), logits.cols());
  for (Eigen::Index r = 0; r < logits.rows(); ++r) {
    FullRow& one = asked[static_cast<std::size_t>(r)];
    const LogitRule rule = context_.attention.of(one.query_head);
    const std::span<float> seen(logits.data() + r * logits.cols() + (one.seen - begin),
                                static_cast<std::size_t>(one.query + 1 - one.seen));
    to_logits(Eigen::Map<Eigen::VectorXf>(seen.data(), std::ssize(seen)), rule);
    one.logits = seen;
    one.full = softmax(one.logits, rule.sink);
    full.row(r).segment(one.seen - begin, std::ssize(one.full)) =
        Eigen::Map<const Eigen::RowVectorXd>(one.full.data(), std::ssize(one.full)).cast<float>();
  }
  Matrix outputs = full * kvloupe::rows(view(values), begin, end - begin);
  multiply_by_gate(asked, outputs);
  Whole& whole = whole_[place_of_head];
  whole.norm += outputs.cast<double>().squaredNorm();
  std::vector<Matrix> changes;  // [replays]
  for (std::size_t replay = 0; replay < found.front().size(); ++replay) {
    Sums& sums = sums_of(replay, place_of_head);
    changes.push_back(changes_of(head, asked, full, found, replay, sums));
    multiply_by_gate(asked, changes.back());
    sums.error += changes.back().cast<double>().squaredNorm();
  }
  const auto place = static_cast<Eigen::Index>(first);
  for (std::size_t i = 0; i < group; ++i) {
    const Matrix* const weight = weight_of(i);
    if (weight == nullptr) return;
    const auto from = static_cast<Eigen::Index>(i) * rows;
    whole.output.middleRows(place, rows) +=
        (outputs.middleRows(from, rows) * *weight).cast<double>();
    for (std::size_t replay = 0; replay < changes.size(); ++replay) {
      Sums& sums = sums_of(replay, place_of_head);
      const Eigen::MatrixXd moved =
          (changes[replay].middleRows(from, rows) * *weight).cast<double>();
      sums.change.middleRows(place, rows) += moved;
      sums.l1 += moved.lpNorm<1>();
      if (effects_ != nullptr && effects_->size() > 0) {
        sums.effect += moved.cwiseProduct(effects_->middleRows(place, rows)).sum();
      }
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
