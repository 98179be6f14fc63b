#include "analysis/trace/hdf5_output.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/trace/half.h"

namespace kvloupe::hdf5 {

namespace {
Handle file_access() {
  const std::string what = "cannot set up HDF5";
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  // Metadata of HDF5 1.10 carries checksums, so that damage is found instead of followed.
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), what);
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), what);
  check(H5Pset_file_locking(access, false, true), what);  // UnfinishedFile holds it locked
  return access;
}
}  // namespace

Handle create_file(const std::filesystem::path& path) {
  const Handle access = file_access();
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "cannot set up HDF5");
  H5Pset_obj_track_times(creation, false);
  return Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose,
                "cannot create it");
}

Handle change_file(const std::filesystem::path& path) {
  const Handle access = file_access();
  return Handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, access), H5Fclose, "cannot change it");
}

Handle create_dataset(hid_t file, const std::string& path, hid_t type, const Shape& shape,
                      const Shape& chunk, std::size_t cache) {
  const std::string what = "cannot make " + path;
  const int rank = static_cast<int>(shape.size());
  const Handle space(H5Screate_simple(rank, shape.data(), shape.data()), H5Sclose, what);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, what);
  check(H5Pset_obj_track_times(creation, false), what);  // equal content, equal bytes
  if (!chunk.empty()) {
    check(H5Pset_chunk(creation, rank, chunk.data()), what);
    check(H5Pset_fill_time(creation, H5D_FILL_TIME_ALLOC), what);
    check(H5Pset_chunk_cache(access, 13, cache, 1.0), what);
  }
  return Handle(H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, creation, access),
                H5Dclose, what);
}

void write_slab(hid_t dataset, hid_t type, const Shape& start, const Shape& count, const void* data,
                const std::string& path) {
  const std::string what = "cannot write " + path;
  const Handle file_space(H5Dget_space(dataset), H5Sclose, what);
  check(
      H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
      what);
  const Handle memory_space(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                            H5Sclose, what);
  check(H5Dwrite(dataset, type, memory_space, file_space, H5P_DEFAULT, data), what);
}

void write_array(hid_t file, const std::string& path, hid_t file_type, hid_t memory_type,
                 const Shape& shape, const void* data) {
  const Handle id = create_dataset(file, path, file_type, shape, {}, 0);
  check(H5Dwrite(id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "cannot write " + path);
}

}  // namespace kvloupe::hdf5

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
