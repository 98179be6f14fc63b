#include "analysis/trace/trace_walk.h"

#include <cstdint>

#include "analysis/trace/hdf5.h"
#include "analysis/trace/packed_dataset.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace fs = std::filesystem;
using hdf5::Dataset;

namespace {
/// Reads the first and the last number, converted as a reader converts them.
void touch(const Dataset& dataset, const std::string& path) {
  const bool real = dataset.type_class == H5T_FLOAT;
  if ((!real && dataset.type_class != H5T_INTEGER) || dataset.elements() == 0) return;
  const hid_t type = dataset.is_half ? hid_t{dataset.type}
                     : real          ? H5T_NATIVE_FLOAT
                                     : H5T_NATIVE_INT64;
  std::uint64_t number = 0;
  const hdf5::Shape one(dataset.shape.size(), 1);
  hdf5::Shape at(one.size(), 0);
  hdf5::read_part(dataset, path, type, at, one, &number);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = dataset.shape[i] - 1;
  hdf5::read_part(dataset, path, type, at, one, &number);
}
}  // namespace

void walk_trace(const fs::path& path) {
  const TraceDatasets datasets(path);
  // A file of weights is not opened as a trace: the trace that names the file determines its
  // required content (shared_weights.h).
  const bool is_weights = datasets.guarded([&] {
    return hdf5::read_text(hdf5::open_group(datasets.file(), "/"), "format").value_or("") ==
           layout::kWeightsFormat;
  });
  if (!is_weights) {
    const Trace trace(path);
    for (int layer = 0; layer < trace.model().num_layers; ++layer) trace.merges(layer);
  }
  datasets.guarded([&] {
    for (const std::string& name : hdf5::dataset_paths(datasets.file())) {
      if (layout::is_read(name)) {
        touch(datasets.dataset(name), name);
      } else {  // may hold what it likes
        hdf5::open_dataset(datasets.file(), name);
      }
    }
  });
}

}  // namespace kvloupe
