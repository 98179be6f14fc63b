#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Results that the policies of several replays of one trace share, whatever their scores and
/// budgets: attention while nothing has left the cache, and numbers that depend on a value alone.
/// Sharing changes no bit. Thread-safe. The first results are kept, up to so many bytes; the rest
/// is computed each time.
class SharedPrefix {
 public:
  explicit SharedPrefix(std::size_t most_bytes) : room_(most_bytes) {}

  /// Σ over the block's queries of a query head's attention, where the cache holds all tokens up to
  /// the block's end and none merged: [end].
  std::vector<float> column_sums(int layer, int query_head, const Block& block,
                                 const std::function<std::vector<float>()>& compute);

  /// ‖v W_O‖ of values as captured, of one kind (layer, head, norm), for neighbouring tokens that
  /// are multiplied together: the last bit of a product may depend on the rows beside it. Empty
  /// where these are not known.
  struct Kind {
    int layer = 0, head = 0;
    Norm norm = Norm::l1;
    auto operator<=>(const Kind&) const = default;
  };
  std::vector<float> norms(const Kind& kind, const Block& tokens) const;
  void keep_norms(const Kind& kind, const Block& tokens, std::span<const float> norms);

 private:
  bool reserve(std::size_t bytes);  // with the mutex held

  mutable std::mutex mutex_;
  std::size_t room_;
  std::map<std::tuple<int, int, int, int>, std::vector<float>> sums_;  // layer, head, first, end
  std::map<std::tuple<Kind, int, int>, std::vector<float>> norms_;     // kind, first, end
};

}  // namespace kvloupe
