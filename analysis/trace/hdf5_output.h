#pragma once
// Writing HDF5 files that hdf5.h can read: new files and datasets. Private to analysis/trace.

#include <filesystem>
#include <span>
#include <string>

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

// All throw Failure and are called under Lock.

/// Makes an HDF5 file of a file that exists, whatever is in it.
Handle create_file(const std::filesystem::path& path);

/// Opens a whole HDF5 file to add to it.
Handle change_file(const std::filesystem::path& path);

/// A dataset of `shape`; chunked and extendable up to that shape where `chunk` is not empty.
/// `cache` is the library's own chunk cache: 0 where rows should go straight to the file.
Handle create_dataset(hid_t file, const std::string& path, hid_t type, const Shape& shape,
                      const Shape& chunk, std::size_t cache);

/// Writes `count` elements from `start` on; `data` is dense and of memory type `type`.
void write_slab(hid_t dataset, hid_t type, const Shape& start, const Shape& count, const void* data,
                const std::string& path);

/// Makes a dataset and writes all of it; `data` is dense and of type `memory_type`.
void write_array(hid_t file, const std::string& path, hid_t file_type, hid_t memory_type,
                 const Shape& shape, const void* data);

}  // namespace kvloupe::hdf5

// A dataset of floating-point numbers, stored as float16 where they fit.

namespace kvloupe {

/// Largest magnitude; NaN where any element is not a number.
float largest_magnitude(std::span<const float> values);

/// One dataset in the making. Methods throw hdf5::Failure and are called under hdf5::Lock.
struct FloatDataset {
  hdf5::Handle id;
  std::string path;
  bool half = false;  // float16, else float32
  hdf5::Shape shape, chunk;

  static FloatDataset create(hid_t file, const std::string& path, bool as_half,
                             const hdf5::Shape& shape, const hdf5::Shape& chunk,
                             std::size_t cache = 0);

  /// Writes float32 `values` of shape `count` at `start`, narrowed where the dataset is float16.
  void write(const hdf5::Shape& start, const hdf5::Shape& count,
             std::span<const float> values) const;

  /// The numbers of shape `count` at `start`, as a reader of the file gets them.
  void read(const hdf5::Shape& start, const hdf5::Shape& count, std::span<float> values) const;

  /// Makes a float16 dataset a float32 one, keeping the first `rows` places of its `axis`, 0 or 1.
  void widen(hid_t file, std::size_t axis, int rows);
};

}  // namespace kvloupe
