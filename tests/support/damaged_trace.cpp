#include "tests/support/damaged_trace.h"

#include <array>
#include <limits>

#include "analysis/trace/hdf5.h"
#include "analysis/trace/hdf5_output.h"

namespace kvloupe::test {

void damage_key(const std::filesystem::path& trace, int layer, int head, int token) {
  const hdf5::Lock lock;
  const hdf5::Handle file = hdf5::change_file(trace);
  const std::string name = "/layers/" + std::to_string(layer) + "/key";
  const hdf5::Handle data(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "no keys");
  const hdf5::Handle space(H5Dget_space(data), H5Sclose, "no keys");
  const std::array<hsize_t, 3> place{static_cast<hsize_t>(head), static_cast<hsize_t>(token), 0};
  hdf5::check(H5Sselect_elements(space, H5S_SELECT_SET, 1, place.data()), "no such key");
  const hdf5::Handle one(H5Screate(H5S_SCALAR), H5Sclose, "no space");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  hdf5::check(H5Dwrite(data, H5T_NATIVE_FLOAT, one, space, H5P_DEFAULT, &nan), "cannot damage");
}

}  // namespace kvloupe::test
