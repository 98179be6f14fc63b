#include "analysis/base/system/confinement.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace kvloupe {

namespace {
constexpr int kOpenFiles = 64;

void limit(__rlimit_resource what, std::uint64_t value) {
  const rlimit both{value, value};
  setrlimit(what, &both);  // where it fails, a lower limit holds already
}

/// Bytes of address space that this process has; 0 where that is not known.
[[maybe_unused]] std::uint64_t address_space() {  // unused with sanitizers: they reserve terabytes
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const bool right = std::fscanf(file, "%llu", &pages) == 1;
  std::fclose(file);
  return right ? pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned kArchitecture = 0;
#endif

/// System calls that touch nothing outside of the process, or only read.
constexpr int kAllowed[] = {
    SYS_read,
    SYS_pread64,
    SYS_readv,
    SYS_write,
    SYS_writev,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_sched_yield,
    SYS_getrusage,
    SYS_getdents64,
    SYS_restart_syscall,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_uname,
    SYS_sysinfo,
    SYS_sched_getaffinity,
#if defined(__x86_64__)
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_time,
#endif
};

/// Every other system call fails with EPERM; so does an opening for writing. Ignored where the
/// kernel cannot do it.
void allow_reading_only() {
  if (kArchitecture == 0) return;
  std::vector<sock_filter> program;
  const auto load = [&](std::size_t offset) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)));
  };
  const auto answer = [&](unsigned action) {
    program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
  };
  /// The next `skipped` instructions run only if the loaded number is `value`.
  const auto only_if = [&](unsigned value, unsigned char skipped) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped));
  };
  constexpr unsigned kRefuse = SECCOMP_RET_ERRNO | EPERM;
  load(offsetof(seccomp_data, arch));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  answer(kRefuse);
  load(offsetof(seccomp_data, nr));
  for (const int call : kAllowed) {
    only_if(static_cast<unsigned>(call), 1);
    answer(SECCOMP_RET_ALLOW);
  }
  // Openings for reading. The flags are an int, the low half of the argument.
  constexpr unsigned kWriting = O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
  const auto allow_opening = [&](int call, std::size_t flags) {
    only_if(static_cast<unsigned>(call), 4);
    load(offsetof(seccomp_data, args) + flags * sizeof(std::uint64_t));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kWriting, 0, 1));
    answer(kRefuse);
    answer(SECCOMP_RET_ALLOW);
  };
  allow_opening(SYS_openat, 2);
#if defined(__x86_64__)
  allow_opening(SYS_open, 1);
#endif
  // abort() sends a signal to its own process. A signal to another process is refused.
  const auto allow_to_itself = [&](int call) {
    only_if(static_cast<unsigned>(call), 4);
    load(offsetof(seccomp_data, args));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(getpid()), 1, 0));
    answer(kRefuse);
    answer(SECCOMP_RET_ALLOW);
  };
  allow_to_itself(SYS_tgkill);
  // fcntl: flags of descriptors, which HDF5 and the C library ask for.
  only_if(static_cast<unsigned>(SYS_fcntl), 4);
  load(offsetof(seccomp_data, args) + sizeof(std::uint64_t));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, F_SETFL, 0, 1));
  answer(kRefuse);
  answer(SECCOMP_RET_ALLOW);
  answer(kRefuse);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  // For all threads: libraries may have started some.
  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}
}  // namespace

void confine_process(const Confinement& allowed) {
#if defined(SYS_close_range)
  syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (const std::uint64_t now = address_space(); now > 0) limit(RLIMIT_AS, now + allowed.memory);
#endif
  // The soft limit ends it with a signal that says why.
  const rlimit time{allowed.seconds, allowed.seconds + 5};
  setrlimit(RLIMIT_CPU, &time);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, kOpenFiles);
  allow_reading_only();
}

}  // namespace kvloupe
