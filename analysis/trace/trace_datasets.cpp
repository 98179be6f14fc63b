#include "analysis/trace/trace_datasets.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/trace/half.h"
#include "analysis/trace/packed_dataset.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

using hdf5::Dataset;
using Shape = TraceDatasets::Shape;
using Kind = TraceDatasets::Kind;

namespace {
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
  const std::uint64_t stored = std::min(dataset.stored_bytes, file_bytes);
  if (bytes <= stored || (dataset.packed && bytes / hdf5::kMostCompression < stored)) return;
  throw hdf5::Failure(fmt::format("{} has the shape {} but only {} bytes in the file", path,
                                  hdf5::shape_text(dataset.shape), stored));
}
}  // namespace

TraceDatasets::TraceDatasets(std::filesystem::path path) : path_(std::move(path)), use_(path_) {
  guarded([&] {
    hdf5::TraceFile opened = hdf5::open_trace_file(path_);
    file_ = std::move(opened.file);
    file_bytes_ = opened.bytes;
    identity_ = std::move(opened.identity);
  });
}

Dataset TraceDatasets::dataset(const std::string& name) const {
  if (!layout::is_read(name)) throw std::logic_error(name + " is not in the table of trace_layout");
  Dataset dataset = hdf5::open_dataset(file_, name);
  hdf5::check_packing(dataset, name, file_bytes_);
  return dataset;
}

void TraceDatasets::use_shared_weights(const ModelInfo& model) {
  const hdf5::Handle group = hdf5::open_group(file_, "/model");
  const auto form = hdf5::read_text(group, layout::kSharedWeights);
  if (!form || shared_weights_left_alone()) return;
  const std::string fingerprint = hdf5::read_text(group, layout::kFingerprint).value_or("");
  const std::filesystem::path file = weights_path(cache_folder(), fingerprint, *form);
  std::string problem;
  if (file.empty()) {
    missing_weights_ =
        cache_folder().empty() && is_weights_form(*form)
            ? "the model's weights are kept outside the trace, and no cache folder is known; set "
              "XDG_CACHE_HOME to a folder"
            : "the model's weights are kept outside the trace, which does not say where; capture "
              "the prompt again";
  } else if (holds_weights(file, model, fingerprint, *form, &problem)) {
    weights_ = std::make_unique<TraceDatasets>(file);
    identity_ += "+weights";  // more can be computed than without them
  } else {
    missing_weights_ = fmt::format(
        "the model's weights are kept outside the trace: {} {}. Without them, the perturbation and "
        "its bound, changes in the whole model, and effects on the logits cannot be computed. "
        "kvloupe-capture pack TRACE --model MODEL -o FILE makes them again",
        file.string(), problem);
  }
}

const TraceDatasets* TraceDatasets::elsewhere(const std::string& name) const {
  const bool is_weight = name == layout::kHead || name.ends_with("/output_weight");
  if (!weights_ || !is_weight || hdf5::exists(file_, name)) return nullptr;
  return weights_.get();
}

Dataset TraceDatasets::open(const std::string& name, Kind kind, const Shape& shape) const {
  if (const TraceDatasets* other = elsewhere(name)) return other->open(name, kind, shape);
  Dataset dataset = this->dataset(name);
  check_kind(dataset, kind, name);
  if (dataset.shape != shape) {
    throw hdf5::Failure(fmt::format("{} has the shape {}, but the attributes say {}", name,
                                    hdf5::shape_text(dataset.shape), hdf5::shape_text(shape)));
  }
  check_stored(dataset, name, file_bytes_);
  return dataset;
}

bool TraceDatasets::found(const std::string& name, Kind kind, const Shape& shape) const {
  if (!elsewhere(name) && !hdf5::exists(file_, name)) return false;
  open(name, kind, shape);
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
                                                 Eigen::Index rows, Eigen::Index columns) const {
  Stored stored;
  guarded([&] {
    const Dataset dataset = open(name, Kind::real, shape);
    if (dataset.is_half) {
      stored.halves =
          std::make_unique_for_overwrite<std::uint16_t[]>(static_cast<std::size_t>(rows * columns));
      hdf5::read_part(dataset, name, dataset.type, start, count, stored.halves.get());
    } else {
      stored.floats.resize(rows, columns);
      hdf5::read_part(dataset, name, H5T_NATIVE_FLOAT, start, count, stored.floats.data());
    }
  });
  return stored;
}

Matrix TraceDatasets::read_part(const std::string& name, const Shape& shape, const Shape& start,
                                const Shape& count, Eigen::Index rows, Eigen::Index columns) const {
  Stored stored = read_stored(name, shape, start, count, rows, columns);
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
                              {1, shape[1], shape[2]}, rows, columns);
  if (!stored.halves) return std::move(stored.floats);
  return {rows, columns, std::move(stored.halves)};
}

Matrix TraceDatasets::read_matrix(const std::string& name, const Shape& shape, int index) const {
  Shape start(shape.size(), 0), count = shape;
  if (shape.size() == 3) {
    start[0] = static_cast<hsize_t>(index);
    count[0] = 1;
  }
  const std::size_t rank = shape.size();
  return read_part(name, shape, start, count, static_cast<Eigen::Index>(shape[rank - 2]),
                   static_cast<Eigen::Index>(shape[rank - 1]));
}

std::vector<float> TraceDatasets::read_row(const std::string& name, int rows, int columns,
                                           int row) const {
  std::vector<float> values(static_cast<std::size_t>(columns));
  guarded([&] {
    const Dataset dataset = open(name, Kind::real, {static_cast<hsize_t>(rows), values.size()});
    hdf5::read_part(dataset, name, H5T_NATIVE_FLOAT, {static_cast<hsize_t>(row), 0},
                    {1, values.size()}, values.data());
  });
  return values;
}

}  // namespace kvloupe

namespace kvloupe::hdf5 {

namespace {
/// Whether the file says, as those of HDF5 1.10 and later do, that a program has it open for
/// writing.
bool is_marked_open(const std::filesystem::path& path) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1A\n", 8);
  constexpr std::size_t kVersion = 8, kFlags = 11;
  std::array<char, 12> head{};
  std::ifstream file(path, std::ios::binary);
  return file.read(head.data(), head.size()) &&
         std::string_view(head.data(), kSignature.size()) == kSignature && head[kVersion] >= 3 &&
         head[kFlags] != 0;
}
}  // namespace

TraceFile open_trace_file(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    throw FileError(path.string(),
                    std::string("cannot open it: ") + std::strerror(errno) + "; check the name");
  }
  if (S_ISDIR(status.st_mode)) {
    throw FileError(path.string(), "is a folder, not a trace; give the name of a file");
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError(path.string(), "is not a regular file; give the name of a trace");
  }
  if (access(path.c_str(), R_OK) != 0) {
    throw FileError(path.string(), std::string("cannot open it: ") + std::strerror(errno) +
                                       "; check its permissions");
  }
  TraceFile opened;
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  opened.identity = file_identity(status);
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    throw FileError(path.string(), "is not an HDF5 file; kvloupe-capture makes traces");
  }
  const Handle properties(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "cannot set up HDF5");
  H5Pset_fclose_degree(properties, H5F_CLOSE_STRONG);
  // A finished trace is never written again, and some file systems know no locks.
  H5Pset_file_locking(properties, false, true);
  // Without a cache of chunks HDF5 reads those that are not compressed straight to where they are
  // wanted, and of these only the part that is wanted. Nothing is read twice for that: a dataset is
  // opened for each read, and its cache would be empty.
  check(H5Pset_cache(properties, 0, 0, 0, 0.0), "cannot set up HDF5");
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, properties);
  if (id < 0 && is_marked_open(path)) {
    throw FileError(path.string(),
                    "is open for writing in another program: close it there; if none has it open, "
                    "one ended without closing it: h5clear -s FILE removes the mark");
  }
  opened.file = Handle(id, H5Fclose, "is truncated or damaged");
  const Handle creation(H5Fget_create_plist(opened.file), H5Pclose, "is damaged");
  std::size_t address_bytes = 0, size_bytes = 0;
  check(H5Pget_sizes(creation, &address_bytes, &size_bytes), "is damaged");
  if (address_bytes != 8 || size_bytes != 8) {
    throw Failure("does not use 8-byte addresses and sizes");
  }
  return opened;
}

}  // namespace kvloupe::hdf5
