#pragma once

#include <cstddef>
#include <vector>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// The keys of a cache packed for products with many queries: panels of some keys each, coordinate
/// by coordinate. Packed once, they serve all rows of all query heads of a group; a library would
/// pack them again for each product. Float32. The products of a row do not depend on which other
/// rows are computed. The kernel is chosen when the program starts.
class KeyPanels {
 public:
  /// Whether this processor has a kernel. Without one the other methods must not be used.
  static bool available();
  /// Rows of products are written in whole panels: for n keys a row needs room for this many
  /// floats.
  static std::size_t padded(std::size_t n);

  /// keys [n,d]
  void lay_out(const MatrixView& keys);
  /// products[r·stride + i] = ⟨queries[r], key i⟩ for the keys from `oldest` to `seen` − 1. Other
  /// entries of the same panels are overwritten.
  void multiply(const MatrixView& queries, Eigen::Index oldest, Eigen::Index seen, float* products,
                std::size_t stride) const;

 private:
  std::vector<float> panels_;  // [panel][d][keys of a panel], zeros after the last key
};

}  // namespace kvloupe
