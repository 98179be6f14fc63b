#include "analysis/trace/hdf5_output.h"

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
