#include "analysis/trace/hdf5.h"

#include <atomic>
#include <cmath>
#include <utility>

#include "analysis/base/text/utf8.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe::hdf5 {

namespace {
std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;  // the library's state is the process's, so its lock is too
  return mutex;
}

std::atomic<std::uint64_t> closings_failed{0};

Handle adopt(hid_t id, Handle::Close close, const std::string& what) { return {id, close, what}; }

std::string attribute(const char* name) { return "attribute '" + std::string(name) + "'"; }

Handle scalar_space() { return adopt(H5Screate(H5S_SCALAR), H5Sclose, "cannot make a data space"); }

template <typename T>
void write_scalar(hid_t object, const char* name, hid_t type, const T& value) {
  const std::string what = "cannot write " + attribute(name);
  const Handle space = scalar_space();
  const Handle id =
      adopt(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
  check(H5Awrite(id, type, &value), what);
}

/// The attribute opened and checked to hold one element; invalid where it is missing.
Handle open_scalar(hid_t object, const char* name) {
  const htri_t there = H5Aexists(object, name);
  if (there == 0) return {};
  const std::string what = "cannot read " + attribute(name);
  check(there, what);
  Handle id = adopt(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
  const Handle space = adopt(H5Aget_space(id), H5Sclose, what);
  if (H5Sget_simple_extent_npoints(space) != 1)
    throw Failure(attribute(name) + " must be one value");
  return id;
}

/// Reads a number as `type`, one of the native ones.
template <typename T>
T read_number(hid_t id, const char* name, hid_t type) {
  T value{};
  check(H5Aread(id, type, &value), "cannot read " + attribute(name));
  return value;
}

H5T_class_t number_class(hid_t id, const char* name) {
  const Handle type = adopt(H5Aget_type(id), H5Tclose, "cannot read " + attribute(name));
  const H5T_class_t type_class = H5Tget_class(type);
  if (type_class != H5T_INTEGER && type_class != H5T_FLOAT && type_class != H5T_ENUM) {
    throw Failure(attribute(name) + " is not a number");
  }
  return type_class;
}

bool is_half_type(hid_t type) {
  const Handle half = half_type();
  return H5Tequal(type, half) > 0;
}
}  // namespace

Lock::Lock() : lock_(library_mutex()) {
  // Every file is closed by its owner. The library's own clean-up at exit is not wanted: after a
  // file that could not be written, as on a full disk, it crashes.
  [[maybe_unused]] static const herr_t no_cleanup = H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // per thread in a thread-safe library
}

Handle::Handle(hid_t id, Close close, const std::string& what) : id_(id), close_(close) {
  if (id < 0) check(-1, what);
}
Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
  }
  return *this;
}
bool Handle::reset() {
  if (id_ < 0) return true;
  const Lock lock;
  if (close_(std::exchange(id_, -1)) >= 0) return true;
  ++closings_failed;
  return false;
}

std::uint64_t failed_closings() { return closings_failed; }

std::string system_reason() {
  std::string reason;
  const H5E_walk2_t find = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    // The driver's words: "..., errno = 28, error message = 'No space left on device', ..."
    static constexpr std::string_view kMark = "error message = '";
    const std::string_view text = error->desc == nullptr ? "" : error->desc;
    const std::size_t at = text.find(kMark);
    if (at != std::string_view::npos) {
      const std::string_view rest = text.substr(at + kMark.size());
      *static_cast<std::string*>(out) = rest.substr(0, rest.find('\''));
    }
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find, &reason);
  return reason;
}

void check(herr_t status, const std::string& what) {
  if (status >= 0) return;
  const std::string reason = system_reason();
  throw Failure(reason.empty() ? what : what + " (" + reason + ")");
}

Handle half_type() {
  const std::string what = "cannot make the float16 type";
  Handle type = adopt(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, what);
  check(H5Tset_fields(type, 15, 10, 5, 0, 10), what);
  check(H5Tset_size(type, 2), what);
  check(H5Tset_ebias(type, 15), what);
  return type;
}

Handle merged_entry_type(bool in_file) {
  const std::string what = "cannot make the type of a merge";
  static_assert(sizeof(MergedEntry) == 5 * 4);  // so both have the same layout
  Handle type = adopt(H5Tcreate(H5T_COMPOUND, sizeof(MergedEntry)), H5Tclose, what);
  std::size_t offset = 0;
  for (const char* member : layout::kMergeMembers) {
    const bool last = offset + 4 == sizeof(MergedEntry);
    const hid_t number = last ? (in_file ? H5T_IEEE_F32LE : H5T_NATIVE_FLOAT)
                              : (in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32);
    check(H5Tinsert(type, member, offset, number), what);
    offset += 4;
  }
  return type;
}

Handle string_type() {
  const std::string what = "cannot make the string type";
  Handle type = adopt(H5Tcopy(H5T_C_S1), H5Tclose, what);
  check(H5Tset_size(type, H5T_VARIABLE), what);
  check(H5Tset_cset(type, H5T_CSET_UTF8), what);
  return type;
}

bool exists(hid_t file, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string step = path.substr(0, end);
    if (step == "/") return true;  // the file's own group
    if (H5Lexists(file, step.c_str(), H5P_DEFAULT) <= 0) return false;
    H5L_info_t link;
    check(H5Lget_info(file, step.c_str(), &link, H5P_DEFAULT), "cannot read " + step);
    if (link.type != H5L_TYPE_HARD) {
      throw Failure(step +
                    " is a link to another place, perhaps to another file: copy the data "
                    "into the trace");
    }
    if (end == std::string::npos) return true;
  }
}

Handle open_group(hid_t parent, const std::string& path) {
  exists(parent, path);
  return adopt(H5Gopen2(parent, path.c_str(), H5P_DEFAULT), H5Gclose, "has no group " + path);
}

Handle create_group(hid_t parent, const std::string& path) {
  return adopt(H5Gcreate2(parent, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
               "cannot make the group " + path);
}

std::vector<std::string> dataset_paths(hid_t file) {
#if H5_VERSION_GE(1, 12, 0)  // there H5O_info_t is a newer structure, which H5Ovisit2 does not know
  using ObjectInfo = H5O_info2_t;
  constexpr auto visit = H5Ovisit3;
#else
  using ObjectInfo = H5O_info_t;
  constexpr auto visit = H5Ovisit2;
#endif
  const auto collect = [](hid_t, const char* name, const ObjectInfo* info, void* out) -> herr_t {
    if (info->type != H5O_TYPE_DATASET) return 0;
    try {
      static_cast<std::vector<std::string>*>(out)->push_back(std::string("/") + name);
      return 0;
    } catch (...) {
      return -1;  // no exception may cross the library
    }
  };
  std::vector<std::string> paths;
  check(visit(file, H5_INDEX_NAME, H5_ITER_INC, collect, &paths, H5O_INFO_BASIC),
        "cannot list its datasets: damaged");
  return paths;
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  const std::string text = escape_invalid_utf8(value);
  const Handle type = string_type();
  const char* const pointer = text.c_str();
  write_scalar(object, name, type, pointer);
}
void write_attribute(hid_t object, const char* name, double value) {
  write_scalar(object, name, H5T_NATIVE_DOUBLE, value);
}
void write_attribute(hid_t object, const char* name, std::int64_t value) {
  write_scalar(object, name, H5T_NATIVE_INT64, value);
}
void write_attribute(hid_t object, const char* name, std::uint64_t value) {
  write_scalar(object, name, H5T_NATIVE_UINT64, value);
}
void write_attribute(hid_t object, const char* name, const std::vector<std::string>& values) {
  const std::string what = "cannot write " + attribute(name);
  std::vector<std::string> texts;
  for (const std::string& value : values) texts.push_back(escape_invalid_utf8(value));
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const Handle type = string_type();
  const hsize_t count = pointers.size();
  const Handle space = adopt(H5Screate_simple(1, &count, nullptr), H5Sclose, what);
  const Handle id =
      adopt(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
  if (count > 0) check(H5Awrite(id, type, pointers.data()), what);
}
void write_flag(hid_t object, const char* name, bool value) {
  const std::uint8_t byte = value ? 1 : 0;
  if (H5Aexists(object, name) <= 0) return write_scalar(object, name, H5T_NATIVE_UINT8, byte);
  const std::string what = "cannot write " + attribute(name);
  const Handle id = adopt(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
  check(H5Awrite(id, H5T_NATIVE_UINT8, &byte), what);
}

std::vector<std::string> read_strings(hid_t type, hid_t space, std::size_t count,
                                      const std::function<herr_t(hid_t, void*)>& read,
                                      const std::string& what) {
  std::vector<std::string> result;
  result.reserve(count);
  const htri_t variable = H5Tis_variable_str(type);
  check(variable, what);
  if (variable > 0) {
    const Handle memory = adopt(H5Tcopy(type), H5Tclose, what);
    std::vector<char*> pointers(count, nullptr);
    const herr_t status = read(memory, pointers.data());
    if (status >= 0) {
      for (const char* text : pointers) {
        result.push_back(escape_invalid_utf8(text == nullptr ? "" : text));
      }
      H5Dvlen_reclaim(memory, space, H5P_DEFAULT, pointers.data());
    }
    check(status, what);
  } else {
    const std::size_t size = H5Tget_size(type);
    if (size == 0) throw Failure(what);
    std::vector<char> buffer(size * count);
    check(read(type, buffer.data()), what);
    const bool spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
    for (std::size_t i = 0; i < count; ++i) {
      std::string_view text(buffer.data() + i * size, size);
      text = text.substr(0, text.find('\0'));
      while (spaces && text.ends_with(' ')) text.remove_suffix(1);
      result.push_back(escape_invalid_utf8(text));
    }
  }
  return result;
}

std::vector<std::string> read_texts(hid_t object, const char* name, std::size_t most) {
  const htri_t there = H5Aexists(object, name);
  if (there == 0) return {};
  const std::string what = "cannot read " + attribute(name);
  check(there, what);
  const Handle id = adopt(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
  const Handle space = adopt(H5Aget_space(id), H5Sclose, what);
  const Handle type = adopt(H5Aget_type(id), H5Tclose, what);
  if (H5Tget_class(type) != H5T_STRING) throw Failure(attribute(name) + " is not text");
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  if (count < 0 || static_cast<std::size_t>(count) > most || H5Aget_storage_size(id) > (1U << 26)) {
    throw Failure(attribute(name) + " is too large");
  }
  if (count == 0) return {};
  return read_strings(
      type, space, static_cast<std::size_t>(count),
      [&](hid_t memory, void* buffer) { return H5Aread(id, memory, buffer); }, what);
}

std::optional<std::string> read_text(hid_t object, const char* name) {
  std::vector<std::string> texts = read_texts(object, name, 1);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

std::optional<double> read_real(hid_t object, const char* name) {
  const Handle id = open_scalar(object, name);
  if (!id.valid()) return std::nullopt;
  number_class(id, name);
  return read_number<double>(id, name, H5T_NATIVE_DOUBLE);
}

std::optional<std::int64_t> read_integer(hid_t object, const char* name) {
  const Handle id = open_scalar(object, name);
  if (!id.valid()) return std::nullopt;
  if (number_class(id, name) != H5T_FLOAT) {
    return read_number<std::int64_t>(id, name, H5T_NATIVE_INT64);
  }
  const auto value = read_number<double>(id, name, H5T_NATIVE_DOUBLE);
  if (!(std::abs(value) < 0x1p53) || value != std::floor(value)) {
    throw Failure(attribute(name) + " is not a whole number");
  }
  return static_cast<std::int64_t>(value);
}

std::optional<std::uint64_t> read_unsigned(hid_t object, const char* name) {
  const Handle id = open_scalar(object, name);
  if (!id.valid()) return std::nullopt;
  if (number_class(id, name) == H5T_FLOAT) throw Failure(attribute(name) + " is not an integer");
  return read_number<std::uint64_t>(id, name, H5T_NATIVE_UINT64);
}

std::uint64_t Dataset::elements() const {
  std::uint64_t count = 1;
  for (const hsize_t extent : shape) count *= extent;
  return count;
}

std::string Dataset::type_name() const {
  const std::string bits = std::to_string(element_bytes * 8);
  switch (type_class) {
    case H5T_FLOAT:
      return "float" + bits;
    case H5T_INTEGER:
      return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
    case H5T_STRING:
      return "string";
    case H5T_COMPOUND:
      return "compound";
    default:
      return "other";
  }
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

Dataset open_dataset(hid_t file, const std::string& path) {
  const std::string what = "cannot open " + path + ": damaged";
  exists(file, path);
  Dataset result;
  result.id = adopt(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose, what);
  result.type = adopt(H5Dget_type(result.id), H5Tclose, what);
  const Handle space = adopt(H5Dget_space(result.id), H5Sclose, what);
  const int rank = H5Sget_simple_extent_ndims(space);
  check(rank, what);
  result.shape.resize(static_cast<std::size_t>(rank));
  if (rank > 0) check(H5Sget_simple_extent_dims(space, result.shape.data(), nullptr), what);
  std::uint64_t elements = 1;
  for (const hsize_t extent : result.shape) {
    if (__builtin_mul_overflow(elements, extent, &elements) ||
        elements > (std::uint64_t{1} << 50)) {
      throw Failure(path + " has an impossible shape, " + shape_text(result.shape));
    }
  }
  result.type_class = H5Tget_class(result.type);
  result.element_bytes = H5Tget_size(result.type);
  result.is_half = result.type_class == H5T_FLOAT && is_half_type(result.type);

  const Handle properties = adopt(H5Dget_create_plist(result.id), H5Pclose, what);
  const H5D_layout_t layout = H5Pget_layout(properties);
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) {
    throw Failure(path +
                  " keeps its data in another file (virtual dataset): copy it into this one");
  }
  if (H5Pget_external_count(properties) != 0) {
    throw Failure(path +
                  " keeps its data in another file (external storage): copy it into this one");
  }
  result.packed = layout == H5D_CHUNKED && H5Pget_nfilters(properties) > 0;
  result.stored_bytes = H5Dget_storage_size(result.id);
  return result;
}

}  // namespace kvloupe::hdf5
