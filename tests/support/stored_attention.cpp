#include "tests/support/stored_attention.h"

#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe::test {

std::optional<Matrix> stored_attention(const Trace& trace, int layer, int query_head) {
  const std::string name = layout::layer_dataset(layer, "attention");
  return trace.file().guarded([&]() -> std::optional<Matrix> {
    if (!hdf5::exists(trace.file().file(), name)) return std::nullopt;
    const hdf5::Dataset dataset = hdf5::open_dataset(trace.file().file(), name);
    const auto length = static_cast<hsize_t>(trace.length());
    if (dataset.shape != hdf5::Shape{static_cast<hsize_t>(trace.model().num_heads), length, length})
      throw hdf5::Failure(name + " has the shape " + hdf5::shape_text(dataset.shape));
    Matrix matrix(trace.length(), trace.length());
    hdf5::read_part(dataset, name, H5T_NATIVE_FLOAT, {static_cast<hsize_t>(query_head), 0, 0},
                    {1, length, length}, matrix.data());
    return matrix;
  });
}

}  // namespace kvloupe::test
