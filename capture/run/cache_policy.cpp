#include "capture/run/cache_policy.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/blas.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "capture/model/runs_together.h"
#include "capture/run/layer_writer.h"
#include "capture/run/model_description.h"

namespace kvloupe {

RunningPass::RunningPass(const Transformer& model, const ModelInfo& info)
    : state_{std::vector<std::vector<float>>(static_cast<std::size_t>(info.num_layers)), {}} {
  for (int layer = 0; layer < info.num_layers; ++layer) {
    attending_.push_back(
        {layer, layer_model(info, model.config(), layer), layer_attention(model, layer)});
  }
}

std::span<const float> RunningPass::residual_change(int layer) const {
  return state_.changes[static_cast<std::size_t>(layer)];
}

void RunningPass::will_ask(int layers) {
  const int first = std::max(static_cast<int>(attending_.size()) - layers, 0);
  for (int layer = first; layer < static_cast<int>(attending_.size()); ++layer) state_.asked[layer];
}

void RunningPass::add_changes(int layer, std::span<const float> changes) {
  auto& own = state_.changes[static_cast<std::size_t>(layer)];
  own.insert(own.end(), changes.begin(), changes.end());
}

void RunningPass::add_states(int layer, const at::Tensor& query, const at::Tensor& key) {
  const auto found = state_.asked.find(layer);
  if (found == state_.asked.end()) return;
  Layer& own = found->second;
  own.query = query;
  own.width = static_cast<int>(key.size(2));
  own.end += static_cast<int>(key.size(1));
  own.keys.resize(static_cast<std::size_t>(key.size(0)));
  const std::int64_t numbers = key.size(1) * key.size(2);
  for (std::int64_t head = 0; head < key.size(0); ++head) {
    const float* rows = key.data_ptr<float>() + head * numbers;
    auto& keys = own.keys[static_cast<std::size_t>(head)];
    keys.insert(keys.end(), rows, rows + numbers);
  }
}

Matrix RunningPass::queries(int layer, int token) const {
  const Layer& own = state_.asked.at(layer);
  const std::int64_t row = token - (own.end - own.query.size(1));
  if (row < 0 || row >= own.query.size(1)) {
    throw std::logic_error("a query of another block than the last");
  }
  const at::Tensor rows = own.query.select(1, row).contiguous();  // [Hq,d]
  return Eigen::Map<const Matrix>(rows.data_ptr<float>(), rows.size(0), rows.size(1));
}

MatrixView RunningPass::keys(int layer, int head) const {
  const Layer& own = state_.asked.at(layer);
  const auto& keys = own.keys[static_cast<std::size_t>(head)];
  return {keys.data(), static_cast<Eigen::Index>(own.end), static_cast<Eigen::Index>(own.width),
          Eigen::OuterStride<>(own.width)};
}

namespace {

/// Heads side by side; one after another in runs that write together.
void for_heads(int count, const std::function<void(int)>& body) {
  if (!runs_together()) return parallel_loop(0, count, body, tbb::simple_partitioner());
  for (int i = 0; i < count; ++i) body(i);
}

Matrix matrix_of(const at::Tensor& x) {
  const at::Tensor dense = x.to(at::kCPU, at::kFloat).contiguous();
  return Eigen::Map<const Matrix>(dense.data_ptr<float>(), dense.size(0), dense.size(1));
}

/// Views of the heads of a dense float32 tensor [H,m,d] on the CPU.
std::vector<MatrixView> views_of(const at::Tensor& x) {
  std::vector<MatrixView> views;
  for (std::int64_t head = 0; head < x.size(0); ++head) {
    views.emplace_back(x.data_ptr<float>() + head * x.size(1) * x.size(2), x.size(1), x.size(2),
                       Eigen::OuterStride<>(x.size(2)));
  }
  return views;
}

}  // namespace

void check_positions(const ModelConfig& model, Positions positions, int most_tokens) {
  if (positions == Positions::original) return;
  const std::int64_t window = model.narrowest_window();
  if (window == 0 || most_tokens <= window) return;
  throw WorkError("compact positions are not defined beyond the model's sliding window of " +
                  std::to_string(window) + " tokens: run at most this number of tokens, not " +
                  std::to_string(most_tokens) + ", or use original positions");
}

CachePolicy::CachePolicy(const Transformer& model, const ModelInfo& info, const ClosedLoop& loop,
                         Storage storage)
    : storage_(storage),
      rounds_(has_part(loop.policy, PartKind::storage)),
      layers_(static_cast<std::size_t>(info.num_layers)) {
  check_closed_loop(loop.policy, loop.twice != nullptr, loop.structural != nullptr);
  check_limits(loop.policy, info, loop.budget);
  if (has_trait(loop.policy, &PolicyTraits::reads_pass)) {
    pass_ = std::make_unique<RunningPass>(model, info);
  }
  reads_residual_ = has_trait(loop.policy, &PolicyTraits::reads_residual);
  const bool with_weights = has_trait(loop.policy, &PolicyTraits::reads_output_weights);
  for (int index = 0; index < info.num_layers; ++index) {
    Layer& layer = layers_[static_cast<std::size_t>(index)];
    for (int head = 0; with_weights && head < info.num_heads; ++head) {
      layer.output_weights.push_back(matrix_of(output_slice(model, index, head, storage)));
    }
    LayerContext context{.layer = index,
                         .model = layer_model(info, model.config(), index),
                         .attention = layer_attention(model, index),
                         .budget = loop.budget,
                         .prompt_length = loop.prompt_length,
                         .structural = loop.structural,
                         .output_weights = layer.output_weights,
                         .for_heads = for_heads,
                         .sequence = loop.twice,
                         .pass = pass_.get()};
    layer.caches =
        std::make_unique<EvictingLayer>(loop.policy, context, PolicyOptions{}, loop.positions);
    layer.evicted_at.resize(static_cast<std::size_t>(info.num_kv_heads));
  }
}

bool CachePolicy::cut(const LayerStep& step, bool last, bool acts) {
  const auto on_cpu = [&](const at::Tensor& x) {
    return as_stored(x[0], storage_).to(at::kCPU).contiguous();
  };
  const Step own{step.step,
                 step.layer,
                 step.block,
                 on_cpu(step.states.query),
                 on_cpu(step.states.key),
                 on_cpu(step.states.value),
                 &step.cache,
                 last,
                 acts};
  if (!pass_) return decide(own);
  pass_->add_states(own.layer, own.query, own.key);
  waiting_.push_back(own);
  return false;
}

bool CachePolicy::end_pass() {
  bool changed = false;
  for (const Step& step : waiting_) changed = decide(step) || changed;
  waiting_.clear();
  return changed;
}

bool CachePolicy::decide(const Step& step) {
  Layer& layer = layers_[static_cast<std::size_t>(step.layer)];
  const OneBlasThread one_thread;
  std::vector<HeadDecision> decisions =
      layer.caches->step({step.step, step.block, views_of(step.query), views_of(step.key),
                          views_of(step.value), nullptr, step.last, step.acts});
  bool changed = false;
  for (std::size_t head = 0; head < decisions.size(); ++head) {
    layer.evicted_at[head].resize(static_cast<std::size_t>(step.block.end), -1);
    changed = cut_head(step, static_cast<int>(head), decisions[head], layer) || changed;
  }
  return changed;
}

bool CachePolicy::cut_head(const Step& step, int head, const HeadDecision& decision, Layer& layer) {
  const HeadCache& cache = layer.caches->head(head);
  const bool whole = decision.merges.empty() && decision.kept.size() == cache.tokens().size() &&
                     cache.hidden() == 0;
  if (whole && !rounds_) return false;
  const std::vector<std::int32_t> tokens(cache.tokens().begin(), cache.tokens().end());
  mark_gone(decision, cache, step.step, layer.evicted_at[static_cast<std::size_t>(head)]);
  std::vector<std::int32_t> rows = decision.kept;  // of the model's cache, which hides nothing
  for (std::int32_t& row : rows) row += cache.hidden();
  const RoundedRows rounded = layer.caches->carry_out(head, decision);
  step.cache->keep(head, rows);

  // A merged or rounded entry is computed once, above, and put in the model's own cache.
  const CacheView view = cache.view();
  const auto rows_of = [](const MatrixView& rows, const Block& some) {
    return std::span(rows.data() + some.first * rows.outerStride(),
                     static_cast<std::size_t>(some.size() * rows.cols()));
  };
  step.cache->replace_keys(head, rounded.keys.first, rows_of(view.keys, rounded.keys));
  step.cache->replace_values(head, rounded.values.first, rows_of(view.values, rounded.values));
  if (whole) return rounded.any();
  const auto row_of = [](const MatrixView& rows, Eigen::Index row) {
    return std::span(rows.data() + row * rows.outerStride(), static_cast<std::size_t>(rows.cols()));
  };
  for (const Merge& merge : decision.merges) {
    const auto kept = std::lower_bound(decision.kept.begin(), decision.kept.end(), merge.into);
    const auto row = static_cast<Eigen::Index>(kept - decision.kept.begin());
    step.cache->replace(head, row,
                        merge.key.empty() ? std::span<const float>() : row_of(view.keys, row),
                        row_of(view.values, row));
  }
  step.cache->set_log_sizes(head, view.log_sizes);
  const auto token_at = [&](int row) { return tokens[static_cast<std::size_t>(row)]; };
  for (const Merge& merge : decision.merges) {
    if (merge.from.size() == 1) continue;  // refitted: nothing went into it
    for (std::size_t i = 0; i < merge.from.size(); ++i) {
      layer.merges.push_back(
          {head, step.step, token_at(merge.into), token_at(merge.from[i]), merge.weights[i]});
    }
  }
  return true;
}

CachePolicy::State CachePolicy::state(bool acts) const {
  State state;
  for (const Layer& layer : layers_)
    state.layers.push_back({layer.caches->state(acts), layer.evicted_at, layer.merges});
  if (pass_) state.pass = pass_->state();
  return state;
}

void CachePolicy::go_on_from(const State& state) {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    layers_[layer].caches->go_on_from(state.layers[layer].caches);
    layers_[layer].evicted_at = state.layers[layer].evicted_at;
    layers_[layer].merges = state.layers[layer].merges;
  }
  if (pass_) pass_->go_on_from(*state.pass);
}

const std::vector<std::vector<std::int32_t>>& CachePolicy::evicted_at(int layer) const {
  return layers_.at(static_cast<std::size_t>(layer)).evicted_at;
}

const std::vector<MergedEntry>& CachePolicy::merges(int layer) const {
  return layers_.at(static_cast<std::size_t>(layer)).merges;
}

}  // namespace kvloupe
