#include "analysis/trace/float_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/trace/half.h"

namespace kvloupe {

/// Largest magnitude; NaN where any element is not a number.
float largest_magnitude(std::span<const float> values) {
  float largest = 0.0F;
  bool numbers = true;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
    numbers &= value == value;
  }
  return numbers ? largest : std::numeric_limits<float>::quiet_NaN();
}

FloatDataset FloatDataset::create(hid_t file, const std::string& path, bool as_half,
                                  const hdf5::Shape& shape, const hdf5::Shape& chunk,
                                  std::size_t cache) {
  FloatDataset floats{{}, path, as_half, shape, chunk};
  const hdf5::Handle half_type = hdf5::half_type();
  const hid_t type = as_half ? hid_t(half_type) : H5T_IEEE_F32LE;
  floats.id = hdf5::create_dataset(file, path, type, shape, chunk, cache);
  return floats;
}

void FloatDataset::write(const hdf5::Shape& start, const hdf5::Shape& count,
                         std::span<const float> values) const {
  if (!half) {
    hdf5::write_slab(id, H5T_NATIVE_FLOAT, start, count, values.data(), path);
    return;
  }
  std::vector<std::uint16_t> narrow(values.size());
  halves_from_floats(values, narrow);
  hdf5::write_slab(id, hdf5::half_type(), start, count, narrow.data(), path);
}

void FloatDataset::read(const hdf5::Shape& start, const hdf5::Shape& count,
                        std::span<float> values) const {
  const std::string what = "cannot read back " + path;
  const hdf5::Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                            H5Sclose, what);
  const hdf5::Handle space(H5Dget_space(id), H5Sclose, what);
  hdf5::check(
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
      what);
  if (!half) {
    hdf5::check(H5Dread(id, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values.data()), what);
    return;
  }
  std::vector<std::uint16_t> narrow(values.size());
  hdf5::check(H5Dread(id, hdf5::half_type(), memory, space, H5P_DEFAULT, narrow.data()), what);
  floats_from_halves(narrow, values);
}

void FloatDataset::widen(hid_t file, std::size_t axis, int rows) {
  const FloatDataset old = std::move(*this);
  hdf5::check(H5Ldelete(file, old.path.c_str(), H5P_DEFAULT), "cannot replace " + old.path);
  *this = create(file, old.path, false, old.shape, old.chunk);
  if (rows == 0) return;
  hdf5::Shape start(shape.size(), 0), count = shape;
  count[axis] = static_cast<hsize_t>(rows);
  if (axis > 0) count[0] = 1;  // head after head
  std::size_t elements = 1;
  for (const hsize_t size : count) elements *= size;
  std::vector<float> wide(elements);
  for (; start[0] < (axis > 0 ? shape[0] : 1); ++start[0]) {
    old.read(start, count, wide);
    write(start, count, wide);
  }
}

}  // namespace kvloupe
