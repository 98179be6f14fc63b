#pragma once
// The HDF5 C library for kvloupe: handles that close themselves, one lock around every call, typed
// attributes, and failures as exceptions. Private to analysis/trace.

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"

namespace kvloupe::hdf5 {

/// A failed call, in words without the file's name: "cannot read /layers/0/key: damaged".
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A dimension of a dataset; `count` is not negative.
inline hsize_t extent(int count) { return static_cast<hsize_t>(count); }

/// Held during every use of the library, including closing handles: HDF5 is thread-safe only on
/// some systems. Also stops HDF5 from printing its error stack.
class Lock {
 public:
  Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Runs `work` under the lock; a Failure inside becomes a FileError about the file, with advice.
template <typename Work>
auto guarded(const std::string& path, const std::string& advice, Work work) {
  try {
    const Lock lock;
    return work();
  } catch (const Failure& failure) {
    throw FileError(path, std::string(failure.what()) + "; " + advice);
  }
}

/// Owns one identifier of any kind; closes it (under the lock) at the end.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  /// Throws Failure(what) where `id` is negative.
  Handle(hid_t id, Close close, const std::string& what);
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  operator hid_t() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// False if the library reports a failure, for example of the last write.
  bool reset();

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// How many closings the library has called failed so far. A dataset's last bytes reach its file
/// when it is closed, often in a destructor, where nobody can throw: a writer of a file compares
/// this number before and after.
std::uint64_t failed_closings();

/// Throws Failure(what), with the operating system's reason if there is one.
void check(herr_t status, const std::string& what);
/// The operating system's message in the last failed call; empty if there is none.
std::string system_reason();

/// IEEE binary16, as h5py makes it.
Handle half_type();
/// The compound type of MergedEntry (model_info.h): in memory, or packed as in a file.
Handle merged_entry_type(bool in_file);
/// Variable-length UTF-8.
Handle string_type();
Handle open_group(hid_t parent, const std::string& path);
Handle create_group(hid_t parent, const std::string& path);
/// True where every link along an absolute path exists. Throws Failure where one is no hard link:
/// it may lead to any other file that this person can read. All openings of a path ask this first.
bool exists(hid_t file, const std::string& path);
/// Absolute paths of all datasets, in the order of their names.
std::vector<std::string> dataset_paths(hid_t file);

void write_attribute(hid_t object, const char* name, const std::string& value);
void write_attribute(hid_t object, const char* name, double value);
void write_attribute(hid_t object, const char* name, std::int64_t value);
void write_attribute(hid_t object, const char* name, std::uint64_t value);
void write_attribute(hid_t object, const char* name, const std::vector<std::string>& values);
/// uint8; replaces the value if the attribute exists.
void write_flag(hid_t object, const char* name, bool value);

/// Nothing if the attribute is missing. Throws Failure if it has another type: text may have
/// variable or fixed length, numbers any integer or floating-point type with one element.
std::optional<std::string> read_text(hid_t object, const char* name);
std::optional<double> read_real(hid_t object, const char* name);
std::optional<std::int64_t> read_integer(hid_t object, const char* name);
std::optional<std::uint64_t> read_unsigned(hid_t object, const char* name);
std::vector<std::string> read_texts(hid_t object, const char* name, std::size_t most);

/// `count` strings of fixed or variable length. `read` reads them all into a buffer of the given
/// memory type; `space` is theirs.
std::vector<std::string> read_strings(hid_t type, hid_t space, std::size_t count,
                                      const std::function<herr_t(hid_t, void*)>& read,
                                      const std::string& what);

using Shape = std::vector<hsize_t>;

/// A dataset in the file, before its data is read.
struct Dataset {
  Handle id;
  Handle type;
  Shape shape;
  H5T_class_t type_class = H5T_NO_CLASS;
  bool is_half = false;
  bool packed = false;  // its chunks went through filters
  std::size_t element_bytes = 0;
  std::uint64_t stored_bytes = 0;

  std::uint64_t elements() const;
  std::string type_name() const;
};

/// Opens a dataset whose data is in this file: external and virtual storage is refused.
Dataset open_dataset(hid_t file, const std::string& path);
/// "[2, 96, 16]"
std::string shape_text(const Shape& shape);

}  // namespace kvloupe::hdf5
