#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/replay/cache/key_panels.h"

namespace kvloupe {

/// sums[r] += Σ_k weights[r][k] · values[k] for R rows of weights [R,n] and values [n,d], float32,
/// rows `..._stride` floats apart. Values are read in place, so no row waits for a copy of them. A
/// row's sums do not depend on the other rows; terms are added in the order of k within stretches
/// of 256, and a weight of zero changes nothing. The kernel is chosen when the program starts.
struct WeightedSums {
  std::size_t rows = 0, n = 0, d = 0;
  const float* weights = nullptr;
  std::size_t weight_stride = 0;
  const float* values = nullptr;
  std::size_t value_stride = 0;
  float* sums = nullptr;
  std::size_t sum_stride = 0;
};
void add_weighted_sums(const WeightedSums& of);

/// The entries [first, end) of a head that a query sees.
struct SeenEntries {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// One key-value head and its group's queries of a block, float32, dense.
struct HeadRows {
  std::int64_t group = 1;  // G
  std::int64_t m = 0;
  std::int64_t d = 0;
  std::int64_t n = 0;
  const float* queries = nullptr;           // [G,m,d]
  const float* keys = nullptr;              // [n,d]
  const float* log_sizes = nullptr;         // [n], added to the logits; null: zeros
  const std::vector<SeenEntries>& visible;  // [m], neither bound falls
  LogitRule rule;                           // without a sink
  const float* sinks = nullptr;             // [G]: the sink logit of each query head; null: none
};

/// Places of the results; null: not wanted.
struct RowResults {
  float* logsumexp = nullptr;     // [G,m]
  const float* values = nullptr;  // [n,d], for the outputs
  float* outputs = nullptr;       // [G,m,d]
  float* rows = nullptr;          // [G,m,row_length], zeroed; entry i goes to column columns[i]
  std::int64_t row_length = 0;
  const std::int32_t* columns = nullptr;  // [n]; null: entry i goes to column i
};

/// Softmax attention on the CPU in loops of its own: a tile of rows stays in the processor's cache
/// from its logits to its outputs, where tensors would pass through memory at every step. Tiles are
/// shared by as many threads as oneTBB may use. The result of a row does not depend on the number
/// of threads. An object keeps its buffers for the next head.
class RowAttention {
 public:
  /// Whether this processor has the kernels.
  static bool available() { return KeyPanels::available(); }
  /// Throws Cancelled through progress.
  void attend(const HeadRows& head, const RowResults& results, const Progress& progress);

 private:
  struct Buffers {
    std::unique_ptr<float[]> queries, logits, sums;
    std::size_t query_room = 0, logit_room = 0, sum_room = 0;
    std::vector<float> inverse;
  };
  void attend_tile(const HeadRows& head, const RowResults& results, std::int64_t first,
                   std::int64_t end, Buffers& buffers) const;

  KeyPanels panels_;  // of the entries that the block sees
  std::vector<Buffers> buffers_;
};

}  // namespace kvloupe
