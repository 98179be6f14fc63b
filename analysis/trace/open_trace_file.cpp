#include "analysis/trace/open_trace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "analysis/error.h"
#include "analysis/user_files.h"

namespace kvloupe::hdf5 {

namespace {
/// Whether the file says, as those of HDF5 1.10 and later do, that a program has it open for
/// writing.
bool is_marked_open(const std::filesystem::path& path) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1A\n", 8);
  constexpr std::size_t kVersion = 8, kFlags = 11;
  std::array<char, 12> head{};
  std::ifstream file(path, std::ios::binary);
  return file.read(head.data(), head.size()) &&
         std::string_view(head.data(), kSignature.size()) == kSignature && head[kVersion] >= 3 &&
         head[kFlags] != 0;
}
}  // namespace

TraceFile open_trace_file(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    throw FileError(path.string(),
                    std::string("cannot open it: ") + std::strerror(errno) + "; check the name");
  }
  if (S_ISDIR(status.st_mode)) {
    throw FileError(path.string(), "is a folder, not a trace; give the name of a file");
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError(path.string(), "is not a regular file; give the name of a trace");
  }
  if (access(path.c_str(), R_OK) != 0) {
    throw FileError(path.string(), std::string("cannot open it: ") + std::strerror(errno) +
                                       "; check its permissions");
  }
  TraceFile opened;
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  opened.identity = file_identity(status);
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    throw FileError(path.string(), "is not an HDF5 file; kvloupe-capture makes traces");
  }
  const Handle properties(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "cannot set up HDF5");
  H5Pset_fclose_degree(properties, H5F_CLOSE_STRONG);
  // A finished trace is never written again, and some file systems know no locks.
  H5Pset_file_locking(properties, false, true);
  // Without a cache of chunks HDF5 reads those that are not compressed straight to where they are
  // wanted, and of these only the part that is wanted. Nothing is read twice for that: a dataset is
  // opened for each read, and its cache would be empty.
  check(H5Pset_cache(properties, 0, 0, 0, 0.0), "cannot set up HDF5");
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, properties);
  if (id < 0 && is_marked_open(path)) {
    throw FileError(path.string(),
                    "is open for writing in another program: close it there; if none has it open, "
                    "one ended without closing it: h5clear -s FILE removes the mark");
  }
  opened.file = Handle(id, H5Fclose, "is truncated or damaged");
  const Handle creation(H5Fget_create_plist(opened.file), H5Pclose, "is damaged");
  std::size_t address_bytes = 0, size_bytes = 0;
  check(H5Pget_sizes(creation, &address_bytes, &size_bytes), "is damaged");
  if (address_bytes != 8 || size_bytes != 8) {
    throw Failure("does not use 8-byte addresses and sizes");
  }
  return opened;
}

}  // namespace kvloupe::hdf5
