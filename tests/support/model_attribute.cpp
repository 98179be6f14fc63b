#include "tests/support/model_attribute.h"

#include "analysis/trace/hdf5.h"
#include "analysis/trace/hdf5_output.h"

namespace kvloupe::test {

void write_model_attribute(const std::filesystem::path& trace, const std::string& name,
                           const std::string& text, const char* group) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "cannot open " + trace.string());
  const hdf5::Handle model = hdf5::open_group(file, group);
  if (H5Aexists(model, name.c_str()) > 0) H5Adelete(model, name.c_str());
  hdf5::write_attribute(model, name.c_str(), text);
}

void write_given(const std::filesystem::path& trace, std::optional<int> given,
                 const std::vector<std::int32_t>& own_answer) {
  const hdf5::Lock lock;
  const hdf5::Handle file = hdf5::change_file(trace);
  const hdf5::Handle run = hdf5::open_group(file, "/run");
  if (H5Aexists(run, "given") > 0) H5Adelete(run, "given");
  if (given) hdf5::write_attribute(run, "given", std::int64_t{*given});
  if (hdf5::exists(file, "/run/own_answer")) H5Ldelete(file, "/run/own_answer", H5P_DEFAULT);
  if (own_answer.empty()) return;
  hdf5::write_array(file, "/run/own_answer", H5T_STD_I32LE, H5T_NATIVE_INT32, {own_answer.size()},
                    own_answer.data());
}

void repeat_layer(const std::filesystem::path& trace, int layers) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "cannot open " + trace.string());
  const hdf5::Handle model = hdf5::open_group(file, "/model");
  hdf5::check(H5Adelete(model, "num_layers"), "no number of layers");
  hdf5::write_attribute(model, "num_layers", std::int64_t{layers});
  for (int layer = 1; layer < layers; ++layer) {
    const std::string name = "/layers/" + std::to_string(layer);
    hdf5::check(H5Lcreate_hard(file, "/layers/0", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                "cannot link " + name);
  }
}

void write_token_texts(const std::filesystem::path& trace, const std::vector<std::string>& texts) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "cannot open " + trace.string());
  const hdf5::Handle data(H5Dopen2(file, "/tokens/text", H5P_DEFAULT), H5Dclose, "no token texts");
  const hdf5::Handle space(H5Dget_space(data), H5Sclose, "no token texts");
  std::vector<const char*> pointers;
  for (hssize_t i = 0; i < H5Sget_simple_extent_npoints(space); ++i)
    pointers.push_back(texts[static_cast<std::size_t>(i) % texts.size()].c_str());
  hdf5::check(H5Dwrite(data, hdf5::string_type(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
              "cannot write token texts");
}

void make_loop(const std::filesystem::path& trace, int first, int length) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "cannot open " + trace.string());
  const hdf5::Handle data(H5Dopen2(file, "/tokens/ids", H5P_DEFAULT), H5Dclose, "no token ids");
  const hdf5::Handle space(H5Dget_space(data), H5Sclose, "no token ids");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  hdf5::check(H5Dread(data, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids.data()),
              "cannot read token ids");
  for (auto i = static_cast<std::size_t>(first + length); i < ids.size(); ++i)
    ids[i] = ids[i - static_cast<std::size_t>(length)];
  hdf5::check(H5Dwrite(data, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids.data()),
              "cannot write token ids");
}

void mark_segment(const std::filesystem::path& trace, const std::string& name, int first,
                  int last) {
  const hdf5::Lock lock;
  const hdf5::Handle file(H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "cannot open " + trace.string());
  const hdf5::Handle data(H5Dopen2(file, "/tokens/segment", H5P_DEFAULT), H5Dclose, "no segments");
  const hdf5::Handle space(H5Dget_space(data), H5Sclose, "no segments");
  std::vector<std::string> names = hdf5::read_texts(data, "names", 255);
  std::vector<std::uint8_t> segments(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  hdf5::check(H5Dread(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, segments.data()),
              "cannot read segments");
  for (int token = first; token <= last; ++token)
    segments.at(token) = static_cast<std::uint8_t>(names.size());
  names.push_back(name);
  hdf5::check(H5Adelete(data, "names"), "no names of segments");
  hdf5::write_attribute(data, "names", names);
  hdf5::check(H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, segments.data()),
              "cannot write segments");
}

}  // namespace kvloupe::test
