#include "analysis/trace/trace_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "analysis/trace/half.h"
#include "analysis/trace/open_trace_file.h"
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
