#include "analysis/policy/kit/value_out_norms.h"

#include <algorithm>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/kit/shared_prefix.h"

namespace kvloupe {

namespace {
constexpr float kUnknown = -1.0F;
constexpr Eigen::Index kRowsAtOnce = 64;
}  // namespace

ValueOutNorms::ValueOutNorms(const LayerContext& context, Norm norm)
    : output_weights_(context.output_weights),
      layer_(context.layer),
      num_heads_(context.model.num_heads),
      group_size_(context.model.group_size()),
      norm_(norm),
      shared_(context.sequence != nullptr ? context.sequence->shared() : nullptr),
      norms_(static_cast<std::size_t>(context.model.num_kv_heads)),
      merged_(norms_.size(), 0) {}

void ValueOutNorms::check(const std::string& who) const {
  if (output_weights_.size() == static_cast<std::size_t>(num_heads_)) return;
  throw WorkError(who + " needs the output weights of layer " + std::to_string(layer_) +
                  ", which the trace does not have; capture it again, or leave " + who + " out");
}

const std::vector<float>& ValueOutNorms::of(const StepView& view, int head) {
  const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
  std::vector<float>& norms = norms_[static_cast<std::size_t>(head)];
  norms.resize(static_cast<std::size_t>(cache.values.rows()), kUnknown);
  const auto known = [](float norm) { return norm >= 0.0F; };
  for (auto first = std::find_if_not(norms.begin(), norms.end(), known); first != norms.end();) {
    const auto end = std::find_if(first, norms.end(), known);
    compute(cache, head, first - norms.begin(), end - first);
    first = std::find_if_not(end, norms.end(), known);
  }
  return norms;
}

std::optional<Block> ValueOutNorms::shared_tokens(const CacheView& cache, int head,
                                                  Eigen::Index first, Eigen::Index count) const {
  if (shared_ == nullptr || merged_[static_cast<std::size_t>(head)] != 0) return std::nullopt;
  const auto row = static_cast<std::size_t>(first);
  const Block tokens{cache.tokens[row],
                     cache.tokens[row + static_cast<std::size_t>(count) - 1] + 1};
  return tokens.size() == count ? std::optional(tokens) : std::nullopt;
}

void ValueOutNorms::compute(const CacheView& cache, int head, Eigen::Index first,
                            Eigen::Index count) {
  const auto norms = norms_[static_cast<std::size_t>(head)].begin() + first;
  const SharedPrefix::Kind kind{layer_, head, norm_};
  const auto rows_from = [&](Eigen::Index tile) { return std::min(kRowsAtOnce, count - tile); };
  std::vector<Eigen::Index> unknown;  // tiles of rows
  for (Eigen::Index tile = 0; tile < count; tile += kRowsAtOnce) {
    const auto tokens = shared_tokens(cache, head, first + tile, rows_from(tile));
    const std::vector<float> known = tokens ? shared_->norms(kind, *tokens) : std::vector<float>();
    if (known.empty()) unknown.push_back(tile);
    std::copy(known.begin(), known.end(), norms + tile);
  }
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(count);
  Matrix outputs, room;
  for (int query_head = head * group_size_;
       !unknown.empty() && query_head < (head + 1) * group_size_; ++query_head) {
    const Matrix& weight = output_weights_[static_cast<std::size_t>(query_head)].floats(room);
    for (const Eigen::Index tile : unknown) {
      outputs.noalias() = cache.values.middleRows(first + tile, rows_from(tile)) * weight;
      for (Eigen::Index row = 0; row < outputs.rows(); ++row) {
        const auto output = outputs.row(row);
        sum[tile + row] +=
            static_cast<double>(norm_ == Norm::l1 ? output.lpNorm<1>() : output.norm());
      }
    }
  }
  for (const Eigen::Index tile : unknown) {
    const Eigen::Index rows = rows_from(tile);
    for (Eigen::Index row = tile; row < tile + rows; ++row) {
      norms[row] = static_cast<float>(sum[row] / group_size_);
    }
    const auto tokens = shared_tokens(cache, head, first + tile, rows);
    if (tokens) shared_->keep_norms(kind, *tokens, {norms + tile, norms + tile + rows});
  }
}

void ValueOutNorms::retain(const StepView& view, int head, const HeadDecision& decision) {
  std::vector<float>& norms = norms_[static_cast<std::size_t>(head)];
  norms.resize(view.caches[static_cast<std::size_t>(head)].tokens.size(), kUnknown);
  if (!decision.merges.empty()) merged_[static_cast<std::size_t>(head)] = 1;
  for (const Merge& merge : decision.merges) {
    norms[static_cast<std::size_t>(merge.into)] = kUnknown;
  }
  keep_rows(norms, decision.kept);
}

}  // namespace kvloupe
