#pragma once
// Numbers of all layers for the tokens so far, for policies that decide once the whole model has
// read a block: a replay knows it from the trace, a running model after each pass.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/spec.h"

namespace kvloupe {

class Trace;

/// Thread-safe: the layers of a replay ask at the same time.
class WholePass {
 public:
  virtual ~WholePass() = default;

  /// ‖x_t − x_{t−1}‖₂ of the residual stream x after each layer, 0 at the first token; of the
  /// tokens so far at least. Throws UsageError, saying what to do, where it is not known.
  virtual std::span<const float> residual_change(int layer) const = 0;

  /// Called before the first step by who will ask for attention() of so many last layers.
  virtual void will_ask(int /*layers*/) {}

  /// The attention of one token's query to entries of a cache.
  struct Attention {
    std::vector<double> mean;  // [n] over the query heads of the last layers that attend
    std::vector<double> last;  // [n] over the query heads of the last of them
  };
  /// Softmax of the query of `token` over the entries of these tokens (ascending, none later than
  /// `token`), mean over the query heads, in the last `layers` layers that attend (all, where there
  /// are fewer). Keys are those of the tokens, whatever became of a layer's own cache. What a
  /// layer's reach hides gets nothing. Kept, as all heads and layers ask for the same.
  std::shared_ptr<const Attention> attention(int layers, int token,
                                             std::span<const std::int32_t> entries) const;

 protected:
  struct AttendingLayer {
    int layer = 0;
    ModelInfo model;  // with the layer's own reach
    LayerAttention rule;
  };
  /// Forgets attention(): tokens from some place on are others now.
  void forget_kept();
  /// The layers that attend, ascending.
  virtual const std::vector<AttendingLayer>& attending() const = 0;
  /// [Hq,d]: the queries of one token.
  virtual Matrix queries(int layer, int token) const = 0;
  /// [at least the tokens so far,d].
  virtual MatrixView keys(int layer, int head) const = 0;

 private:
  Attention computed(int layers, int token, std::span<const std::int32_t> entries) const;

  struct Kept {
    int layers = 0;
    std::vector<std::int32_t> entries;
    std::shared_ptr<const Attention> attention;
  };
  mutable std::mutex mutex_;
  mutable std::map<int, Kept> kept_;  // by token
  mutable std::size_t numbers_ = 0;   // in kept_
};

/// The pass of a trace, read when first asked for; borrowed.
std::unique_ptr<WholePass> whole_pass_of(const Trace& trace);

/// The pass that a policy asks: the running model's, or that of the trace which is replayed. Throws
/// UsageError where there is neither.
WholePass& whole_pass(const SpecPart& part, const LayerContext& context);

/// Throws UsageError where a part reads the residual stream and the trace does not have it.
void check_residual(const PolicySpec& spec, const Trace& trace);

}  // namespace kvloupe
