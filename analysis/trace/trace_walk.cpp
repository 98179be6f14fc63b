#include "analysis/trace/trace_walk.h"

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/trace/hdf5.h"
#include "analysis/trace/hdf5_filters.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace fs = std::filesystem;
using hdf5::Dataset;
using hdf5::Handle;

namespace {
/// Reads the first and the last number, converted as a reader converts them.
void touch(const Dataset& dataset, const std::string& path) {
  const bool real = dataset.type_class == H5T_FLOAT;
  if ((!real && dataset.type_class != H5T_INTEGER) || dataset.elements() == 0) return;
  const std::string what = "cannot read " + path + ": damaged or truncated";
  const Handle file_space(H5Dget_space(dataset.id), H5Sclose, what);
  const std::size_t rank = dataset.shape.size();
  if (rank > 0) {
    std::vector<hsize_t> points(2 * rank, 0);
    for (std::size_t i = 0; i < rank; ++i) points[rank + i] = dataset.shape[i] - 1;
    hdf5::check(H5Sselect_elements(file_space, H5S_SELECT_SET, 2, points.data()), what);
  }
  const hsize_t count = rank > 0 ? 2 : 1;
  const Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose, what);
  std::array<std::uint64_t, 2> numbers{};
  const hid_t type = dataset.is_half ? hid_t{dataset.type}
                     : real          ? H5T_NATIVE_FLOAT
                                     : H5T_NATIVE_INT64;
  hdf5::check(H5Dread(dataset.id, type, memory, file_space, H5P_DEFAULT, numbers.data()), what);
}
}  // namespace

void walk_trace(const fs::path& path) {
  {
    const Trace trace(path);
    for (int layer = 0; layer < trace.model().num_layers; ++layer) trace.merges(layer);
  }
  const TraceDatasets datasets(path);
  datasets.guarded([&] {
    for (const std::string& name : hdf5::dataset_paths(datasets.file())) {
      const Dataset dataset = hdf5::open_dataset(datasets.file(), name);
      if (!layout::is_read(name)) continue;  // others may hold what they like
      hdf5::check_packed_chunks(dataset, name, datasets.bytes());
      touch(dataset, name);
    }
  });
}

}  // namespace kvloupe
