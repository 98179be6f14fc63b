#include "analysis/trace/hdf5_checked_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

namespace kvloupe::hdf5 {

namespace {
// A global heap collection (HDF5 file format specification, III.E), sizes of 8 bytes:
//   "GCOL", version 1, 3 zero bytes, size; then objects, each at a multiple of 8:
//   index (2), references (2), reserved (4), size (8), data. Index 0 is the free rest, whose size
//   counts its own header.
constexpr unsigned char kSignature[8] = {'G', 'C', 'O', 'L', 1, 0, 0, 0};
constexpr std::uint64_t kHeader = 16, kSmallest = 4096;

template <typename T>
T little_endian(const unsigned char* bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{bytes[i]} << (8 * i));
  return value;
}

bool read_at(int descriptor, std::uint64_t offset, void* buffer, std::size_t size) {
  auto* out = static_cast<unsigned char*>(buffer);
  while (size > 0) {
    const ssize_t got = pread(descriptor, out, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Sizes of a collection's objects by index.
using Objects = std::map<std::uint32_t, std::uint64_t>;

/// False where the collection at `offset` is malformed.
bool read_collection(int descriptor, std::uint64_t offset, std::uint64_t file_size,
                     Objects& objects) {
  unsigned char header[kHeader];
  if (offset > file_size || file_size - offset < kHeader ||
      !read_at(descriptor, offset, header, kHeader) ||
      std::memcmp(header, kSignature, sizeof kSignature) != 0) {
    return false;
  }
  const auto size = little_endian<std::uint64_t>(header + 8);
  if (size < kSmallest || size > file_size - offset) return false;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size));
  if (!read_at(descriptor, offset, bytes.data(), bytes.size())) return false;
  for (std::uint64_t at = kHeader; size - at >= kHeader;) {
    const std::uint64_t left = size - at;
    const auto index = little_endian<std::uint16_t>(&bytes[at]);
    const auto object = little_endian<std::uint64_t>(&bytes[at + 8]);
    if (object > left) return false;
    const std::uint64_t need = index == 0 ? object : kHeader + (object + 7) / 8 * 8;
    if (need < kHeader || need > left || need % 8 != 0) return false;
    if (index != 0 && !objects.emplace(index, object).second) return false;
    at += need;
  }
  return true;
}

struct CheckedFile {
  H5FD_t base{};  // the library's part comes first
  int descriptor = -1;
  haddr_t allocated = 0, size = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

CheckedFile* self(H5FD_t* file) { return reinterpret_cast<CheckedFile*>(file); }
const CheckedFile* self(const H5FD_t* file) { return reinterpret_cast<const CheckedFile*>(file); }

H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  const int descriptor = open(name, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    if (descriptor >= 0) close(descriptor);
    return nullptr;
  }
  auto* file = new (std::nothrow) CheckedFile;
  if (file == nullptr) {
    close(descriptor);
    return nullptr;
  }
  file->descriptor = descriptor;
  file->size = static_cast<haddr_t>(status.st_size);
  file->device = status.st_dev;
  file->inode = status.st_ino;
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  const int result = close(self(file)->descriptor);
  delete self(file);
  return result;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const auto key = [](const H5FD_t* file) {
    return std::pair(self(file)->device, self(file)->inode);
  };
  return key(a) < key(b) ? -1 : key(b) < key(a) ? 1 : 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;  // no buffering: every read arrives as it is asked
  return 0;
}

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  const CheckedFile& checked = *self(file);
  const haddr_t there = address < checked.size ? checked.size - address : 0;
  const std::size_t count = std::min<std::size_t>(size, there);
  if (count > 0 && !read_at(checked.descriptor, address, buffer, count)) return -1;
  std::memset(static_cast<unsigned char*>(buffer) + count, 0, size - count);
  // The library asks for heaps as if they were raw data, but a read that starts like one is one.
  if (count >= sizeof kSignature && std::memcmp(buffer, kSignature, sizeof kSignature) == 0) {
    try {
      Objects objects;
      if (!read_collection(checked.descriptor, address, checked.size, objects)) return -1;
    } catch (const std::bad_alloc&) {
      return -1;  // no exception may cross the library
    }
  }
  return 0;
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }
haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return self(file)->allocated; }
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  self(file)->allocated = address;
  return 0;
}
haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) { return self(file)->size; }

/// Throws Failure.
hid_t register_checked_driver() {
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 14, 0)  // from then on a driver states its interface and a number of its own
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 76);  // of those left to others
#endif
  driver.name = "kvloupe-checked";
  driver.maxaddr = (haddr_t{1} << 62) - 1;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = end_of_file;
  driver.read = read;
  driver.write = refuse_write;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  const hid_t id = H5FDregister(&driver);
  if (id < 0) throw Failure("cannot set up HDF5");
  return id;
}
}  // namespace

hid_t checked_driver() {
  static const hid_t driver = register_checked_driver();
  return driver;
}

bool heap_references_hold(const std::string& path, std::uint64_t offset, std::size_t count) {
  constexpr std::size_t kReference = 16;  // length (4), collection's address (8), index (4)
  const int raw = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) return false;
  const std::unique_ptr<const int, void (*)(const int*)> closer(&raw,
                                                                [](const int* d) { close(*d); });
  struct stat status {};
  if (fstat(raw, &status) != 0) return false;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (offset > size || count > (size - offset) / kReference) return false;
  std::vector<unsigned char> references(count * kReference);
  if (!read_at(raw, offset, references.data(), references.size())) return false;
  std::map<std::uint64_t, Objects> collections;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char* reference = &references[i * kReference];
    const auto length = little_endian<std::uint32_t>(reference);
    const auto address = little_endian<std::uint64_t>(reference + 4);
    const auto index = little_endian<std::uint32_t>(reference + 12);
    if (address == 0) continue;  // an empty string
    const auto [known, fresh] = collections.try_emplace(address);
    if (fresh && !read_collection(raw, address, size, known->second)) return false;
    const auto object = known->second.find(index);
    if (object == known->second.end() || object->second < length) return false;
  }
  return true;
}

}  // namespace kvloupe::hdf5
