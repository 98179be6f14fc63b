#pragma once

#include <cstddef>
#include <vector>

#include "analysis/matrix.h"

namespace kvloupe {

/// The keys of a cache laid out for products with many queries: panels of some keys each,
/// coordinate by coordinate. Laid out once, they serve all rows of all query heads of a group,
/// where a library would lay them out anew for each product. Float32; a row's products do not
/// depend on which other rows are asked for. The kernel is chosen when the program starts.
class KeyPanels {
 public:
  /// Whether this processor has a kernel; without one the rest must not be used.
  static bool available();
  /// Rows of products are written in whole panels: room for so many floats is needed for n keys.
  static std::size_t padded(std::size_t n);

  /// keys [n,d]
  void lay_out(const MatrixView& keys);
  /// products[r·stride + i] = ⟨queries[r], key i⟩ for the keys from `oldest` to `seen` − 1; what
  /// shares a panel with them is overwritten.
  void multiply(const MatrixView& queries, Eigen::Index oldest, Eigen::Index seen, float* products,
                std::size_t stride) const;

 private:
  std::vector<float> panels_;  // [panel][d][keys of a panel], zeros after the last key
};

}  // namespace kvloupe
