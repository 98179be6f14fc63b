#include "analysis/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr Confinement kAllowed{64U << 20U, 1};

/// The wait status of a confined child that does this.
int confined(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    confine_process(kAllowed);
    _exit(work());
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return status;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

TEST(Confinement, ReadingGoesOn) {
  EXPECT_EQ(code_of(confined([] {
              const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
              char bytes[16];
              return file >= 0 && read(file, bytes, sizeof bytes) == sizeof bytes ? 0 : 1;
            })),
            0);
}

TEST(Confinement, MemoryIsLimited) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve terabytes";
  EXPECT_EQ(code_of(confined([] {
              std::vector<char> small(16U << 20U, 'x');
              try {
                std::vector<char> large(256U << 20U, 'x');
              } catch (const std::bad_alloc&) {
                return small[5] == 'x' ? 7 : 8;
              }
              return 0;
            })),
            7);
}

TEST(Confinement, TimeIsLimited) {
  EXPECT_EQ(code_of(confined([] {
              volatile unsigned long work = 0;
              while (true) work = work + 1;
              return 0;
            })),
            -SIGXCPU);
}

TEST(Confinement, NothingIsWritten) {
  test::TemporaryFolder folder;
  const std::string path = (folder / "file").string();
  const int before = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int status = confined([&] {
    signal(SIGXFSZ, SIG_IGN);
    if (write(before, "x", 1) == 1) return 1;  // an open file was closed
    for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC}) {
      const int file = open(path.c_str(), flags, 0600);
      if (file >= 0 && write(file, "x", 1) == 1) return 2;
    }
    static_cast<void>(unlink(path.c_str()));
    return 0;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(lseek(before, 0, SEEK_END), 0);
  close(before);
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(Confinement, WhereTheKernelCanDoItNothingElseIsTouched) {
  const unsigned action = SECCOMP_RET_ERRNO;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
    GTEST_SKIP() << "this kernel has no seccomp";
  test::TemporaryFolder folder;
  const std::string path = (folder / "file").string();
  close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto refused = [](long result) { return result < 0 && errno == EPERM; };
  const int status = confined([&] {
    if (!refused(socket(AF_INET, SOCK_STREAM, 0))) return 1;
    if (!refused(socket(AF_UNIX, SOCK_STREAM, 0))) return 2;
    if (!refused(unlink(path.c_str()))) return 3;
    if (!refused(open(path.c_str(), O_WRONLY))) return 4;
    if (!refused(open(path.c_str(), O_RDONLY | O_CREAT, 0600))) return 5;
    if (!refused(rename(path.c_str(), (path + "2").c_str()))) return 6;
    char* const arguments[] = {nullptr};
    if (!refused(execve("/bin/true", arguments, arguments))) return 7;
    if (!refused(kill(getppid(), 0))) return 8;
    if (!refused(chmod(path.c_str(), 0777))) return 9;
    return 0;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
}

TEST(Confinement, AbortStillEndsIt) {
  EXPECT_EQ(code_of(confined([]() -> int { std::abort(); })), -SIGABRT);
}
#endif

}  // namespace
}  // namespace kvloupe
