#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/replay/cache/key_panels.h"

namespace kvloupe {

class SharedPrefix;  // policy/kit/shared_prefix.h

/// Softmax rows of one step's queries over the caches of one layer. The block's own entries are the
/// last m of a cache, so row r sees the first n − m + r + 1 entries, except those beyond the
/// layer's sliding window. Float32 products in tiles of rows; the buffers are reused in later
/// steps.
class CacheAttention : public StepAttention {
 public:
  /// `for_heads`: how query heads may be computed at the same time; empty: one after another.
  CacheAttention(const ModelInfo& model, const LayerAttention& attention, HeadLoop for_heads = {});

  /// Takes column sums from `shared` (or null), and gives them, at the steps where the caches of
  /// this layer of a trace are whole. Borrowed.
  void share(int layer, SharedPrefix* shared) {
    layer_ = layer;
    shared_ = shared;
  }

  /// Starts a new step and forgets the results of the last one. Both arguments must outlive the
  /// step. caches [Hk], queries [Hq]. Results leave out the columns of the first hidden[h] entries
  /// of a cache [Hk]; an empty `hidden` hides none.
  void begin(const std::vector<CacheView>& caches, const std::vector<MatrixView>& queries,
             std::vector<int> hidden = {});

  MatrixView last_rows(int query_head, int count) override;
  /// Computes those of the whole group, whose mean is what policies ask for, at the same time: one
  /// head of a large model then uses all cores.
  const std::vector<float>& column_sums(int query_head) override;

 private:
  struct QueryHead {
    Matrix rows;  // the last rows that were asked for; columns after n are padding
    bool rows_known = false;
    std::vector<float> sums;  // without those of hidden entries
    bool sums_known = false;
    Matrix tile;
  };

  /// Shared by the query heads of a group, which may ask at the same time.
  struct KeyHead {
    std::mutex laying_out;
    bool known = false;
    KeyPanels panels;
    bool multiplied = false;
    Matrix products;  // of the group's queries, where each is one, with the keys
    std::mutex summing;
  };
  const KeyPanels& panels_of(int head);
  const Matrix& products_of(int head);

  void sum_columns(int query_head);
  std::vector<float> summed_columns(int query_head);

  Eigen::Index hidden(int query_head) const {
    return hidden_.empty() ? 0 : hidden_[static_cast<std::size_t>(query_head / group_size_)];
  }
  /// The first entry of a cache that the query of token `query` sees.
  Eigen::Index first_entry(const CacheView& cache, std::int32_t query) const;

  /// Exponentials of the logits of rows [first, first + count), in `tile`; for each, oldest first,
  /// calls row(values, first visible entry, end of the visible, their sum).
  template <typename Row>
  void exponential_rows(int query_head, Eigen::Index first, Eigen::Index count, Matrix& tile,
                        const Row& row);

  int group_size_;
  Reach reach_;
  int layer_ = 0;
  SharedPrefix* shared_ = nullptr;
  HeadLoop for_heads_;
  std::vector<LogitRule> rules_;  // [Hq]
  const std::vector<CacheView>* caches_ = nullptr;
  const std::vector<MatrixView>* queries_ = nullptr;
  std::vector<int> hidden_;                          // [Hk] or empty
  std::vector<QueryHead> heads_;                     // [Hq]
  std::vector<std::unique_ptr<KeyHead>> key_heads_;  // [Hk]
};

}  // namespace kvloupe
