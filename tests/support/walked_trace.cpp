#include "tests/support/walked_trace.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "analysis/trace/trace_walk.h"

// A fuzzer would save the input of a crash that is expected.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace kvloupe::test {

Walked walk_in_child(const std::filesystem::path& path) {
  constexpr int kPassed = 0, kRefused = 3;
  const pid_t child = fork();
  if (child == 0) {
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(nullptr);
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM})
      std::signal(number, SIG_DFL);
    const rlimit core{0, 0};
    setrlimit(RLIMIT_CORE, &core);
#if !defined(__SANITIZE_ADDRESS__)
    const rlimit memory{std::size_t{4} << 30U, std::size_t{4} << 30U};
    setrlimit(RLIMIT_AS, &memory);
#endif
    mallopt(M_PERTURB, 0xa5);
    alarm(10);
    int code = kPassed;
    try {
      walk_trace(path);
    } catch (const std::exception&) {
      code = kRefused;
    }
    _exit(code);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return Walked::crashed;
  if (WEXITSTATUS(status) == kPassed) return Walked::passed;
  return WEXITSTATUS(status) == kRefused ? Walked::refused : Walked::crashed;
}

}  // namespace kvloupe::test
