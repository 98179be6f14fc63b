#include "analysis/trace/trace_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "analysis/trace/half.h"
#include "analysis/trace/hdf5_filters.h"
#include "analysis/trace/open_trace_file.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

using hdf5::Dataset;
using hdf5::Handle;
using Shape = TraceDatasets::Shape;
using Kind = TraceDatasets::Kind;

namespace {
/// gzip packs at most 1032 to 1: a dataset that claims more than this per stored byte is a lie, and
/// what it claims would be allocated.
constexpr std::uint64_t kMostCompression = 1100;

void check_kind(const Dataset& dataset, Kind kind, const std::string& path) {
  const bool right = kind == Kind::real      ? dataset.type_class == H5T_FLOAT
                     : kind == Kind::integer ? dataset.type_class == H5T_INTEGER
                                             : dataset.type_class == H5T_STRING;
  if (!right) {
    throw hdf5::Failure(fmt::format("{} holds {}, not {}", path, dataset.type_name(),
                                    kind == Kind::real      ? "floating-point numbers"
                                    : kind == Kind::integer ? "integers"
                                                            : "text"));
  }
}

/// Refuses a dataset that would make its reader allocate far more than the file could hold.
void check_stored(const Dataset& dataset, const std::string& path, std::uint64_t file_bytes) {
  const std::uint64_t bytes = dataset.elements() * dataset.element_bytes;  // both bounded: 2^50·…
  const Handle properties(H5Dget_create_plist(dataset.id), H5Pclose, "cannot read " + path);
  const bool chunked = H5Pget_layout(properties) == H5D_CHUNKED;
  const bool packed = chunked && H5Pget_nfilters(properties) > 0;
  const std::uint64_t stored = std::min(dataset.stored_bytes, file_bytes);
  if (bytes > stored && (!packed || bytes / kMostCompression >= stored)) {
    throw hdf5::Failure(fmt::format("{} has the shape {} but only {} bytes in the file", path,
                                    hdf5::shape_text(dataset.shape), stored));
  }
  if (!packed) return;
  hdf5::check_filters(properties, path);
  const std::uint64_t chunk_bytes = hdf5::chunk_elements(properties) * dataset.element_bytes;
  if (chunk_bytes / kMostCompression > stored) {
    throw hdf5::Failure(path + " has chunks larger than the file could hold");
  }
}

void select(hid_t space, const Shape& start, const Shape& count, const std::string& what) {
  hdf5::check(
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
      what);
}
}  // namespace

TraceDatasets::TraceDatasets(std::filesystem::path path) : path_(std::move(path)) {
  guarded([&] {
    hdf5::TraceFile opened = hdf5::open_trace_file(path_);
    file_ = std::move(opened.file);
    file_bytes_ = opened.bytes;
    identity_ = std::move(opened.identity);
  });
}

hdf5::Dataset TraceDatasets::dataset(const std::string& name) const {
  if (!layout::is_read(name)) throw std::logic_error(name + " is not in the table of trace_layout");
  return hdf5::open_dataset(file_, name);
}

Dataset TraceDatasets::open(const std::string& name, Kind kind, const Shape& shape,
                            bool sparse) const {
  Dataset dataset = this->dataset(name);
  check_kind(dataset, kind, name);
  if (dataset.shape != shape) {
    throw hdf5::Failure(fmt::format("{} has the shape {}, but the attributes say {}", name,
                                    hdf5::shape_text(dataset.shape), hdf5::shape_text(shape)));
  }
  if (!sparse) check_stored(dataset, name, file_bytes_);
  return dataset;
}

bool TraceDatasets::found(const std::string& name, Kind kind, const Shape& shape,
                          bool sparse) const {
  if (!hdf5::exists(file_, name)) return false;
  open(name, kind, shape, sparse);
  return true;
}

Dataset TraceDatasets::open_merges(int layer) const {
  const std::string name = layout::layer_dataset(layer, "merges");
  Dataset dataset = this->dataset(name);
  if (dataset.type_class != H5T_COMPOUND || dataset.shape.size() != 1) {
    throw hdf5::Failure(fmt::format("{} is {} of shape {}, not a list of compounds", name,
                                    dataset.type_name(), hdf5::shape_text(dataset.shape)));
  }
  for (const char* member : layout::kMergeMembers) {
    const int index = H5Tget_member_index(dataset.type, member);
    const H5T_class_t wanted = member == std::string("weight") ? H5T_FLOAT : H5T_INTEGER;
    if (index < 0 || H5Tget_member_class(dataset.type, static_cast<unsigned>(index)) != wanted) {
      throw hdf5::Failure(fmt::format("{} has no {} member '{}'", name,
                                      wanted == H5T_FLOAT ? "floating-point" : "integer", member));
    }
  }
  check_stored(dataset, name, file_bytes_);
  return dataset;
}

TraceDatasets::Stored TraceDatasets::read_stored(const std::string& name, const Shape& shape,
                                                 const Shape& start, const Shape& count,
                                                 Eigen::Index rows, Eigen::Index columns,
                                                 bool sparse) const {
  Stored stored;
  guarded([&] {
    const std::string what = "cannot read " + name + ": damaged or truncated";
    const Dataset dataset = open(name, Kind::real, shape, sparse);
    const Handle file_space(H5Dget_space(dataset.id), H5Sclose, what);
    select(file_space, start, count, what);
    const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                        H5Sclose, what);
    const auto read = [&](hid_t type, void* into) {
      hdf5::check(H5Dread(dataset.id, type, memory, file_space, H5P_DEFAULT, into), what);
    };
    if (dataset.is_half) {
      stored.halves =
          std::make_unique_for_overwrite<std::uint16_t[]>(static_cast<std::size_t>(rows * columns));
      read(dataset.type, stored.halves.get());
    } else {
      stored.floats.resize(rows, columns);
      read(H5T_NATIVE_FLOAT, stored.floats.data());
    }
  });
  return stored;
}

Matrix TraceDatasets::read_part(const std::string& name, const Shape& shape, const Shape& start,
                                const Shape& count, Eigen::Index rows, Eigen::Index columns,
                                bool sparse) const {
  Stored stored = read_stored(name, shape, start, count, rows, columns, sparse);
  if (stored.halves) {
    stored.floats.resize(rows, columns);
    const auto elements = static_cast<std::size_t>(stored.floats.size());
    floats_from_halves({stored.halves.get(), elements}, {stored.floats.data(), elements});
  }
  return std::move(stored.floats);
}

OutputWeight TraceDatasets::read_output_weight(const std::string& name, const Shape& shape,
                                               int index) const {
  const auto rows = static_cast<Eigen::Index>(shape[1]),
             columns = static_cast<Eigen::Index>(shape[2]);
  Stored stored = read_stored(name, shape, {static_cast<hsize_t>(index), 0, 0},
                              {1, shape[1], shape[2]}, rows, columns, false);
  if (!stored.halves) return std::move(stored.floats);
  return {rows, columns, std::move(stored.halves)};
}

Matrix TraceDatasets::read_matrix(const std::string& name, const Shape& shape, int index,
                                  bool sparse) const {
  Shape start(shape.size(), 0), count = shape;
  if (shape.size() == 3) {
    start[0] = static_cast<hsize_t>(index);
    count[0] = 1;
  }
  const std::size_t rank = shape.size();
  return read_part(name, shape, start, count, static_cast<Eigen::Index>(shape[rank - 2]),
                   static_cast<Eigen::Index>(shape[rank - 1]), sparse);
}

std::vector<float> TraceDatasets::read_row(const std::string& name, int rows, int columns,
                                           int row) const {
  std::vector<float> values(static_cast<std::size_t>(columns));
  guarded([&] {
    const std::string what = "cannot read " + name + ": damaged or truncated";
    const Dataset dataset = open(name, Kind::real, {static_cast<hsize_t>(rows), values.size()});
    const Handle file_space(H5Dget_space(dataset.id), H5Sclose, what);
    const Shape start{static_cast<hsize_t>(row), 0}, count{1, values.size()};
    select(file_space, start, count, what);
    const Handle memory(H5Screate_simple(2, count.data(), nullptr), H5Sclose, what);
    hdf5::check(
        H5Dread(dataset.id, H5T_NATIVE_FLOAT, memory, file_space, H5P_DEFAULT, values.data()),
        what);
  });
  return values;
}

}  // namespace kvloupe
