#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/policy/kit/whole_pass.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "analysis/trace/trace_writer.h"
#include "capture/model/transformer.h"
#include "capture/run/block_runner.h"

namespace kvloupe {

/// Numbers of a running model's layers for the tokens so far, equal to those of a trace of the
/// same run.
class RunningPass : public WholePass {
 public:
  RunningPass(const Transformer& model, const ModelInfo& info);

  std::span<const float> residual_change(int layer) const override;
  void will_ask(int layers) override;

  /// A layer's changes of the next tokens, as ResidualChanges says.
  void add_changes(int layer, std::span<const float> changes);
  /// A layer's states of the next tokens as stored, float32 on the CPU, dense: [Hq,m,d], [Hk,m,d].
  void add_states(int layer, const at::Tensor& query, const at::Tensor& key);

  /// A layer whose attention somebody asks for.
  struct Layer {
    at::Tensor query;                      // of the last block
    int end = 0;                           // tokens so far
    std::vector<std::vector<float>> keys;  // [Hk] of [T so far,d]
    int width = 0;
  };
  struct State {
    std::vector<std::vector<float>> changes;  // [L] of [T so far]
    std::map<int, Layer> asked;
  };
  const State& state() const { return state_; }
  /// Policies that ask this pass then hear of the tokens of that state.
  void go_on_from(const State& state) {
    state_ = state;
    forget_kept();
  }

 protected:
  const std::vector<AttendingLayer>& attending() const override { return attending_; }
  Matrix queries(int layer, int token) const override;
  MatrixView keys(int layer, int head) const override;

 private:
  std::vector<AttendingLayer> attending_;
  State state_;
};

/// How a closed-loop run changes its caches.
struct ClosedLoop {
  PolicySpec policy;
  int budget = 0;  // resolved entries
  Positions positions = Positions::original;
  /// Set if the model reads its context twice before the policy acts, borrowed; else null.
  const SequenceTables* twice = nullptr;
  int prompt_length = 0;  // tokens; 0: not known
  /// LayerContext::structural, borrowed; null: the texts of the tokens are not known.
  const std::vector<char>* structural = nullptr;
};

/// Throws WorkError if positions are compact and a run of this many tokens is longer than the
/// window of a layer: with a window, places in the cache are not defined.
void check_positions(const ModelConfig& model, Positions positions, int most_tokens);

/// The policy of a running model: it evicts from each layer's cache after each block, before the
/// next layer runs; or, where it reads what all layers say, from all of them after the block's
/// whole pass. Both leave the same to the next block, as only the layer itself reads its cache.
/// Entries that no later query sees through the layer's window leave as well. It decides with the
/// same code as a replay, on the CPU in float32, from the states as a trace stores them; so a
/// replay of the written trace decides the same (with original positions).
class CachePolicy {
 public:
  /// Throws UsageError if a running model cannot follow the policy.
  CachePolicy(const Transformer& model, const ModelInfo& info, const ClosedLoop& loop,
              Storage storage);

  /// Decides about one layer's cache and evicts from it. Call it for the steps and blocks of a
  /// layer in order. `last`: no token follows (BlockStates::last). `acts`: whether the
  /// policy acts at this step (BlockStates::acts). Does not read the step's
  /// attention. Returns whether an entry left the cache or was changed. A policy that reads all
  /// layers decides in end_pass(); the cache must stay where it is until then.
  bool cut(const LayerStep& step, bool last = false, bool acts = true);
  /// Whether entries lose bits as they grow old (quant), also at steps at which the policy does not
  /// act: then cut() must be called for these, too.
  bool rounds() const { return rounds_; }
  /// Whether the policy reads the residual stream: then add_changes() gets it, each layer's before
  /// end_pass().
  bool reads_residual() const { return reads_residual_; }
  void add_changes(int layer, std::span<const float> changes) {
    pass_->add_changes(layer, changes);
  }
  /// After the last layer of a block: decides where cut() did not. Returns what cut() would have.
  bool end_pass();

  /// What cut() and end_pass() change, between blocks: from there the policy can go on again, with
  /// other tokens. `acts`: whether it will act again; only then its own state is copied, which
  /// throws CannotCopy where it has some outside of kvloupe.
  struct LayerState {
    EvictingLayer::State caches;
    std::vector<std::vector<std::int32_t>> evicted_at;
    std::vector<MergedEntry> merges;
  };
  struct State {
    std::vector<LayerState> layers;
    std::optional<RunningPass::State> pass;
  };
  State state(bool acts) const;
  void go_on_from(const State& state);

  /// The step at which each token left each head's cache, evicted or beyond the model's window; −1:
  /// still in the cache. [Hk] of [T so far].
  const std::vector<std::vector<std::int32_t>>& evicted_at(int layer) const;
  /// In the order in which they were carried out.
  const std::vector<MergedEntry>& merges(int layer) const;

 private:
  struct Layer {
    std::vector<OutputWeight> output_weights;  // [Hq] of [d,D], if the policy reads them
    std::unique_ptr<EvictingLayer> caches;
    std::vector<std::vector<std::int32_t>> evicted_at;
    std::vector<MergedEntry> merges;
  };
  /// A layer's step with its states as stored.
  struct Step {
    int step = 0;
    int layer = 0;
    Block block;
    at::Tensor query, key, value;  // [H,m,d], float32, on the CPU, dense
    LayerCache* cache = nullptr;
    bool last = false;
    bool acts = true;
  };
  bool decide(const Step& step);
  bool cut_head(const Step& step, int head, const HeadDecision& decision, Layer& layer);

  Storage storage_;
  bool rounds_;
  std::unique_ptr<RunningPass> pass_;  // of a policy that reads all layers; else null
  bool reads_residual_ = false;
  std::vector<Step> waiting_;  // for the end of the pass
  std::vector<Layer> layers_;
};

}  // namespace kvloupe
