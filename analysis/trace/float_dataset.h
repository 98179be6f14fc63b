#pragma once
// A dataset of floating-point numbers, stored as float16 where they fit.

#include <span>
#include <string>

#include "analysis/trace/hdf5_output.h"

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
