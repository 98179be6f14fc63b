#include "tests/support/stored_attention.h"

#include "analysis/trace/hdf5.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe::test {

std::optional<Matrix> stored_attention(const Trace& trace, int layer, int query_head) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                          "cannot open the trace");
  const std::string name = layout::layer_dataset(layer, "attention");
  if (!hdf5::exists(file, name)) return std::nullopt;
  const hdf5::Dataset dataset = hdf5::open_dataset(file, name);
  const auto length = static_cast<hsize_t>(trace.length());
  if (dataset.shape != hdf5::Shape{static_cast<hsize_t>(trace.model().num_heads), length, length})
    throw hdf5::Failure(name + " has the shape " + hdf5::shape_text(dataset.shape));
  const hdf5::Handle space(H5Dget_space(dataset.id), H5Sclose, "no space");
  const hdf5::Shape start{static_cast<hsize_t>(query_head), 0, 0}, count{1, length, length};
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
  const hdf5::Handle memory(H5Screate_simple(3, count.data(), nullptr), H5Sclose, "no space");
  Matrix matrix(trace.length(), trace.length());
  hdf5::check(H5Dread(dataset.id, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, matrix.data()),
              "cannot read " + name);
  return matrix;
}

}  // namespace kvloupe::test
