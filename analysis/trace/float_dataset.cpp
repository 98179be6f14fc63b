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
                                  const hdf5::Shape& shape, const hdf5::Shape& chunk) {
  FloatDataset floats{{}, path, as_half, shape, chunk};
  const hdf5::Handle half_type = hdf5::half_type();
  const hid_t type = as_half ? hid_t(half_type) : H5T_IEEE_F32LE;
  floats.id = hdf5::create_dataset(file, path, type, shape, chunk, 0);
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

void FloatDataset::widen(hid_t file, int rows) {
  const FloatDataset old = std::move(*this);
  hdf5::check(H5Ldelete(file, old.path.c_str(), H5P_DEFAULT), "cannot replace " + old.path);
  *this = create(file, old.path, false, old.shape, old.chunk);
  if (rows == 0) return;
  const hdf5::Shape count{1, static_cast<hsize_t>(rows), old.shape[2]};
  const std::size_t elements = static_cast<std::size_t>(count[1] * count[2]);
  std::vector<std::uint16_t> narrow(elements);
  std::vector<float> wide(elements);
  const hdf5::Handle memory(H5Screate_simple(3, count.data(), nullptr), H5Sclose, "out of memory");
  for (hsize_t head = 0; head < old.shape[0]; ++head) {
    const hdf5::Shape start{head, 0, 0};
    const hdf5::Handle space(H5Dget_space(old.id), H5Sclose, "cannot read back " + old.path);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    hdf5::check(H5Dread(old.id, hdf5::half_type(), memory, space, H5P_DEFAULT, narrow.data()),
                "cannot read back " + old.path);
    floats_from_halves(narrow, wide);
    write(start, count, wide);
  }
}

}  // namespace kvloupe
