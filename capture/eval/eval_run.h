#pragma once

#include <functional>
#include <optional>

#include "analysis/base/core/progress.h"
#include "capture/model/transformer.h"
#include "capture/run/cache_policy.h"
#include "capture/run/probe.h"
#include "capture/run/token_facts.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The first blocks of a sequence, run with the full cache. A run with a policy computes the same
/// until its first eviction, so it takes these blocks from here.
class Recording {
 public:
  /// For blocks that begin at token `until` or before, as many as fit in `room` bytes.
  Recording(int until, std::int64_t room) : until_(until), room_(room) {}

  /// One layer's step of the next block; layers follow one another.
  void add(const LayerStep& step);
  /// The next layer's changes of the residual stream in the block.
  void add_changes(std::vector<float> changes);
  /// Ends the block after all its layers; `outputs` [L] of [D] are those for its last token, `last`
  /// [1,1,D] is the last layer's output for the block's last token.
  void finish_block(const at::Tensor& last, const std::vector<at::Tensor>& outputs);
  /// The block, or null if it is not recorded.
  const RecordedBlock* find(const Block& block) const;

 private:
  int until_;
  std::int64_t room_;
  RecordedBlock next_;
  std::vector<RecordedBlock> blocks_;
};

/// One sequence run through a model, perhaps with a policy in its caches.
class EvalRun {
 public:
  struct Options {
    int most_tokens = 0;
    int block = 128;
    std::optional<ClosedLoop> loop;     // without: the full cache
    Recording* record = nullptr;        // for a run with the full cache: filled
    const Recording* shared = nullptr;  // for a policy: a run of the same tokens in the same parts
  };
  /// Throws as check_positions() and CachePolicy do.
  EvalRun(const Transformer& model, const ModelInfo& info, const Options& options);

  /// Gets the output of a layer, [1,m,D], and the block's first token.
  using HiddenHook = std::function<void(int layer, int first, const at::Tensor& hidden)>;
  /// Runs tokens in blocks and, if `cut` is set, lets the policy evict after each. Blocks that are
  /// shared with the full cache's run are not computed again, and `on_hidden` is not called for
  /// them: both runs are the same there.
  void read(std::span<const std::int32_t> ids, bool cut, const Progress& progress,
            const HiddenHook& on_hidden = {});
  /// Reads the probe's context again, of which the caches must hold all, and leaves them as they
  /// are; the probe gets the states of both readings.
  void read_again(ModelProbe& probe, const Progress& progress);
  /// A run as it is between two read(): from there it can go on again and again, with other tokens.
  /// A branch computes what a run would that reads the same tokens from its beginning in the same
  /// parts, bit by bit.
  struct Mark {
    BlockRunner::State runner;
    ResidualChanges changes;
    std::optional<CachePolicy::State> policy;
    at::Tensor last;
  };
  /// `cuts`: whether the policy will act again; if not, its own state is left out. Nothing where
  /// that cannot be copied (CannotCopy): then each branch must read all anew.
  std::optional<Mark> mark(bool cuts) const;
  /// From here on blocks are neither shared nor recorded: they differ from branch to branch.
  void return_to(const Mark& mark);
  /// The most probable next token.
  std::int32_t choice() const;
  /// The log-probability of a token as the next, in nats.
  double logprob(std::int32_t token) const;
  int length() const { return runner_.length(); }
  const Transformer& model() const { return model_; }

 private:
  const Transformer& model_;
  int block_;
  BlockRunner runner_;
  ResidualChanges changes_;  // where a recording or the policy wants them
  std::optional<CachePolicy> policy_;
  Recording* record_;
  const Recording* shared_;  // null after the policy's first eviction
  at::Tensor last_;          // [1,1,D]: of the last token
};

}  // namespace kvloupe
