#pragma once
// An open trace file and its readable datasets: every dataset is checked before it is read, since
// nobody vouches for the file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/core/matrix.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/output_weight.h"
#include "analysis/trace/packed_dataset.h"

namespace kvloupe {

/// The datasets of one file. Methods that say so throw hdf5::Failure and are called under
/// hdf5::Lock, best inside guarded().
class TraceDatasets {
 public:
  using Shape = hdf5::Shape;
  /// The kind of elements that a dataset must have.
  enum class Kind { real, integer, text };

  /// Opens the file. Throws FileError.
  explicit TraceDatasets(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// Changes when the content does.
  const std::string& identity() const { return identity_; }
  hid_t file() const { return file_; }
  std::uint64_t bytes() const { return file_bytes_; }

  /// For a trace that names weights kept elsewhere: finds them in the cache folder, so that their
  /// datasets are read as if they stood in this file. Throws Failure; call under Lock.
  /// missing_weights() reports missing or wrong weights.
  void use_shared_weights(const ModelInfo& model);
  /// The file they are in; null: none.
  const TraceDatasets* weights() const { return weights_.get(); }
  /// One line; empty: nothing is missing.
  const std::string& missing_weights() const { return missing_weights_; }

  /// Runs `work` under the lock; a failure inside becomes a FileError about the file.
  template <typename Work>
  auto guarded(Work work) const {
    return hdf5::guarded(path_.string(), "capture or convert the trace again", std::move(work));
  }

  /// Opens a dataset of those that kvloupe reads (layout::is_read) and checks how it is packed.
  /// Throws Failure; call under Lock. Throws std::logic_error for any other name: it would be read
  /// without a check.
  hdf5::Dataset dataset(const std::string& name) const;

  /// Opens a dataset and checks kind, shape and storage. Throws Failure; call under Lock.
  hdf5::Dataset open(const std::string& name, Kind kind, const Shape& shape) const;

  /// The same for an optional dataset: false where it is missing.
  bool found(const std::string& name, Kind kind, const Shape& shape) const;

  /// Opens a layer's merges and checks rank, members and storage. Throws Failure; call under Lock.
  hdf5::Dataset open_merges(int layer) const;

  /// All elements of a dataset. Throws Failure; call under Lock.
  template <typename T>
  std::vector<T> read_all(const std::string& name, Kind kind, const Shape& shape,
                          hid_t memory_type) const {
    const hdf5::Dataset dataset = open(name, kind, shape);
    std::vector<T> values(static_cast<std::size_t>(dataset.elements()));
    hdf5::read_part(dataset, name, memory_type, Shape(shape.size(), 0), shape, values.data());
    return values;
  }

  /// Reads `count` elements from `start` on of a float dataset of that shape, as [rows, columns].
  /// Throws FileError.
  Matrix read_part(const std::string& name, const Shape& shape, const Shape& start,
                   const Shape& count, Eigen::Index rows, Eigen::Index columns) const;

  /// One matrix [rows, columns] of a float dataset [n, rows, columns], in the file's own precision.
  /// Throws FileError.
  OutputWeight read_output_weight(const std::string& name, const Shape& shape, int index) const;

  /// Reads rows `index` of the first dimension of a float dataset: everything else as one matrix
  /// [rows, columns]. Throws FileError.
  Matrix read_matrix(const std::string& name, const Shape& shape, int index) const;

  /// One row of a float dataset [rows,columns]. Throws FileError.
  std::vector<float> read_row(const std::string& name, int rows, int columns, int row) const;

 private:
  /// Elements as the file has them: halves, or else floats.
  struct Stored {
    std::unique_ptr<std::uint16_t[]> halves;
    Matrix floats;
  };
  Stored read_stored(const std::string& name, const Shape& shape, const Shape& start,
                     const Shape& count, Eigen::Index rows, Eigen::Index columns) const;

  /// The file of weights, where this dataset is one of theirs and this file lacks it; else null.
  const TraceDatasets* elsewhere(const std::string& name) const;

  std::filesystem::path path_;
  std::unique_ptr<TraceDatasets> weights_;
  std::string missing_weights_;
  std::string identity_;
  std::uint64_t file_bytes_ = 0;
  FileUse use_;  // of a file in the cache folder, which stays there as long as this lives
  hdf5::Handle file_;
};

}  // namespace kvloupe

namespace kvloupe::hdf5 {

/// A file opened for reading, with checks because nobody vouches for it.
struct TraceFile {
  Handle file;
  std::uint64_t bytes = 0;
  std::string identity;  // changes when the content does: size and modification time
};

/// Does not check the content yet. Throws FileError: missing, unreadable, not HDF5; Failure:
/// truncated or damaged. Call under Lock.
TraceFile open_trace_file(const std::filesystem::path& path);

}  // namespace kvloupe::hdf5
