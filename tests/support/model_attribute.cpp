#include "tests/support/model_attribute.h"

#include "analysis/trace/hdf5.h"

namespace kvloupe::test {

void write_model_attribute(const std::filesystem::path& trace, const std::string& name,
                           const std::string& text) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "cannot open " + trace.string());
  const hdf5::Handle model = hdf5::open_group(file, "/model");
  if (H5Aexists(model, name.c_str()) > 0) H5Adelete(model, name.c_str());
  hdf5::write_attribute(model, name.c_str(), text);
}

}  // namespace kvloupe::test
