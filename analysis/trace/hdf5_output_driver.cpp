#include "analysis/trace/hdf5_output_driver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace kvloupe::hdf5 {

namespace {
struct OutputDriverFile {
  H5FD_t base{};  // first: the library knows only this part
  int descriptor = -1;
  haddr_t allocated = 0, size = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

OutputDriverFile* self(H5FD_t* file) { return reinterpret_cast<OutputDriverFile*>(file); }
const OutputDriverFile* self(const H5FD_t* file) {
  return reinterpret_cast<const OutputDriverFile*>(file);
}

/// Leaves the system's reason where system_reason() finds it.
herr_t fail(const char* doing) {
  const int error = errno;
  H5Epush2(H5E_DEFAULT, __FILE__, doing, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_WRITEERROR,
           "%s failed: errno = %d, error message = '%s'", doing, error, std::strerror(error));
  return -1;
}

H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) {
  const int descriptor = open(name, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    fail("file open");
    return nullptr;
  }
  struct stat status {};
  const bool right = ((flags & H5F_ACC_TRUNC) == 0 || ftruncate(descriptor, 0) == 0) &&
                     fstat(descriptor, &status) == 0;
  if (!right) fail("file open");
  auto* file = right ? new (std::nothrow) OutputDriverFile : nullptr;
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
  if (result != 0) fail("file close");
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
  // As the library's own driver: small pieces are gathered before they are written.
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return self(file)->allocated; }
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  self(file)->allocated = address;
  return 0;
}
haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) { return self(file)->size; }

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  auto* out = static_cast<unsigned char*>(buffer);
  while (size > 0) {
    const ssize_t got = pread(self(file)->descriptor, out, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("file read");
    if (got == 0) break;
    out += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  std::memset(out, 0, size);  // beyond the end
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  const auto* from = static_cast<const unsigned char*>(buffer);
  while (size > 0) {
    const ssize_t put = pwrite(self(file)->descriptor, from, size, static_cast<off_t>(address));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return fail("file write");
    from += put;
    address += static_cast<haddr_t>(put);
    size -= static_cast<size_t>(put);
  }
  self(file)->size = std::max(self(file)->size, address);
  return 0;
}

herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  OutputDriverFile& output = *self(file);
  if (output.size == output.allocated) return 0;
  if (ftruncate(output.descriptor, static_cast<off_t>(output.allocated)) != 0)
    return fail("file truncate");
  output.size = output.allocated;
  return 0;
}

/// Throws Failure.
hid_t register_output_driver() {
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 14, 0)  // from then on a driver states its interface and a number of its own
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 77);  // of those left to others
#endif
  driver.name = "kvloupe-output";
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
  driver.write = write;
  driver.truncate = truncate;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  const hid_t id = H5FDregister(&driver);
  if (id < 0) throw Failure("cannot set up HDF5");
  return id;
}
}  // namespace

hid_t output_driver() {
  static const hid_t driver = register_output_driver();
  return driver;
}

}  // namespace kvloupe::hdf5
