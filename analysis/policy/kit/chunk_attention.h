#pragma once

#include <limits>
#include <vector>

#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// How the tokens of a chunk attend to each other, without the causal mask.
struct ChunkRule {
  int chunk = 256;     // tokens
  bool scaled = true;  // logits as the model has them; otherwise the bare products q·k
  // A chunk that is too short is filled up with entries whose logits are 0, and with queries that
  // pay all of the chunk alike.
  bool padded = false;
  int first_token = 0;  // tokens before this one belong to no chunk
  int hold_back = 0;    // the last tokens that were read wait for the next step
};

/// Attention that each token receives from its own chunk: the sum over the chunk's queries of their
/// softmax over the chunk's keys, every query seeing every key; mean over the query heads of the
/// group. Chunks are cut in the tokens that a step brings, those held back before included. Tokens
/// that left the model's window at once are left out. Different heads may be used at the same time.
class ChunkAttention {
 public:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  ChunkAttention(const LayerContext& context, ChunkRule rule);

  /// Once per step, before of() is read.
  void observe(const StepView& view, int head);
  /// [n]; kUnknown for entries that are held back or before the first token.
  const std::vector<double>& of(int head) const {
    return heads_[static_cast<std::size_t>(head)].received;
  }
  /// Once per step, last.
  void retain(int head, const HeadDecision& decision);

 private:
  struct Head {
    std::vector<double> received;       // [n]
    std::vector<std::int32_t> waiting;  // tokens whose chunk has not come yet
    Matrix keys;                        // [waiting,d]
    std::vector<Matrix> queries;        // [G] of [waiting,d]
  };
  void take_up(const StepView& view, int head);
  /// The sum over the queries of the waiting rows [first, first + count): [count].
  std::vector<double> chunk(const Head& head, int query_head, Eigen::Index first,
                            Eigen::Index count) const;

  ModelInfo model_;
  LayerAttention attention_;
  ChunkRule rule_;
  std::vector<Head> heads_;  // [Hk]
};

}  // namespace kvloupe
