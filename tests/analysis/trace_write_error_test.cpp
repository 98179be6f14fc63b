// One write that fails, whichever it is, is noticed: HDF5 writes some bytes only when a dataset is
// closed, which our handles do where nobody can throw.

#include <sys/syscall.h>

#include <cerrno>

#include "tests/support/test.h"

namespace {
constexpr long kNever = -1;
std::atomic<long> writes_until_error{kNever};
}  // namespace

// HDF5 calls this one in place of the C library's, since a program's own symbols come first.
extern "C" ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
  if (writes_until_error.load() >= 0 && writes_until_error.fetch_sub(1) == 0) {
    errno = EIO;
    return -1;
  }
  return syscall(SYS_pwrite64, file, bytes, count, at);
}

namespace kvloupe {
namespace {

TEST(TraceWriteError, EachIsNoticedAndLeavesNothing) {
  const test::TemporaryFolder folder;
  const test::SyntheticTraceOptions options{.layers = 1, .prompt_length = 40};
  const auto write = [&](long at) {
    writes_until_error = at;
    test::write_synthetic_trace(folder / "t.h5", options);
  };
  int failed = 0;
  for (long at = 0;; ++at) {
    try {
      write(at);
    } catch (const FileError& error) {
      writes_until_error = kNever;
      EXPECT_STREQ(error.path.c_str(), (folder / "t.h5").c_str());
      ASSERT_TRUE(std::filesystem::is_empty(folder.path())) << "write " << at;
      ++failed;
      continue;
    }
    // No error: then all writes were done, and the trace is whole.
    ASSERT_GE(writes_until_error.exchange(kNever), 0) << "write " << at << " failed unnoticed";
    break;
  }
  EXPECT_GT(failed, 20) << "HDF5 writes by another call now";
  EXPECT_NO_THROW(Trace(folder / "t.h5"));
}

}  // namespace
}  // namespace kvloupe
