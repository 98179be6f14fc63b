// Changes a trace as another program would, by the HDF5 library alone.

#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace kvloupe::test {

class EditedTrace {
 public:
  explicit EditedTrace(const std::filesystem::path& path)
      : file_(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)) {}
  ~EditedTrace() { H5Fclose(file_); }
  EditedTrace(const EditedTrace&) = delete;
  EditedTrace& operator=(const EditedTrace&) = delete;

  /// An attribute, in place of one of that name.
  void attribute(const char* object, const char* name, hid_t type, const void* value) {
    remove_attribute(object, name);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t id =
        H5Acreate_by_name(file_, object, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(id, type, value);
    H5Aclose(id);
    H5Sclose(space);
  }
  void integer(const char* object, const char* name, std::int64_t value) {
    attribute(object, name, H5T_NATIVE_INT64, &value);
  }
  void real(const char* object, const char* name, double value) {
    attribute(object, name, H5T_NATIVE_DOUBLE, &value);
  }
  void text(const char* object, const char* name, std::string_view value) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, value.size() + 1);
    attribute(object, name, type, value.data());
    H5Tclose(type);
  }
  void remove_attribute(const char* object, const char* name) {
    if (H5Aexists_by_name(file_, object, name, H5P_DEFAULT) > 0)
      H5Adelete_by_name(file_, object, name, H5P_DEFAULT);
  }

  void remove(const char* path) { H5Ldelete(file_, path, H5P_DEFAULT); }
  /// A dataset in place of one of that name, empty unless `fill` writes into it: chunked where
  /// `chunk` is not empty; `change` sets its other properties.
  void replace(const char* path, hid_t type, const std::vector<hsize_t>& shape,
               const std::vector<hsize_t>& chunk = {},
               const std::function<void(hid_t)>& change = {},
               const std::function<void(hid_t)>& fill = {}) {
    if (H5Lexists(file_, path, H5P_DEFAULT) > 0) remove(path);
    const int axes = static_cast<int>(shape.size());
    const hid_t space = H5Screate_simple(axes, shape.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (!chunk.empty()) H5Pset_chunk(properties, axes, chunk.data());
    if (change) change(properties);
    const hid_t id = H5Dcreate2(file_, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    if (fill) fill(id);
    H5Dclose(id);
    H5Pclose(properties);
    H5Sclose(space);
  }
  void write(const char* path, hid_t type, const void* data) {
    const hid_t id = H5Dopen2(file_, path, H5P_DEFAULT);
    H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(id);
  }
  void read(const char* path, hid_t type, void* data) const {
    const hid_t id = H5Dopen2(file_, path, H5P_DEFAULT);
    H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(id);
  }
  hid_t file() const { return file_; }

 private:
  hid_t file_;
};

}  // namespace kvloupe::test
