#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "analysis/policy/policy.h"
#include "analysis/cache/key_panels.h"

namespace kvloupe {

/// Softmax rows of one step's queries over the present caches of one layer. The block's own entries
/// are the last m of a cache, so row r sees the first n − m + r + 1 entries. Float32 products in
/// tiles of rows; buffers live on across steps.
class CacheAttention : public StepAttention {
 public:
  CacheAttention(const ModelInfo& model, double attention_scale);

  /// A new step: forgets what was computed. Both must outlive the step. caches [Hk], queries [Hq].
  void begin(const std::vector<CacheView>& caches, const std::vector<MatrixView>& queries);

  MatrixView last_rows(int query_head, int count) override;
  const std::vector<float>& column_sums(int query_head) override;

 private:
  struct QueryHead {
    Matrix rows;  // the last rows, as many as have been asked for; columns after n are padding
    bool rows_known = false;
    std::vector<float> sums;
    bool sums_known = false;
    Matrix tile;
  };

  /// Shared by the query heads of a group, which may ask at the same time.
  struct KeyHead {
    std::mutex laying_out;
    bool known = false;
    KeyPanels panels;
  };
  const KeyPanels& panels_of(int head);

  /// Exponentials of the logits of rows [first, first + count), in `tile`; for each, oldest first,
  /// calls row(values, visible entries, their sum).
  template <typename Row>
  void exponential_rows(int query_head, Eigen::Index first, Eigen::Index count, Matrix& tile,
                        const Row& row);

  int group_size_;
  float scale_;
  const std::vector<CacheView>* caches_ = nullptr;
  const std::vector<MatrixView>* queries_ = nullptr;
  std::vector<QueryHead> heads_;                     // [Hq]
  std::vector<std::unique_ptr<KeyHead>> key_heads_;  // [Hk]
};

}  // namespace kvloupe
