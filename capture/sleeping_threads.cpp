// Makes threads that wait for each other sleep. By default, OpenMP's threads spin for milliseconds
// and OpenBLAS's for dozens of them. Beside other programs, spinning threads use up processor time,
// and at every product the others wait for a thread that got none. Both libraries read this setting
// only from the environment, when they are loaded, before main(). So the program starts itself
// again with the environment that they need. The restart comes before any library is initialised,
// which is most of the cost of a start, and only if there will be threads. The user's own settings
// for waiting stay.
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace {

bool names(const char* entry, const char* variable) {
  const std::size_t length = std::strlen(variable);
  return std::strncmp(entry, variable, length) == 0 && entry[length] == '=';
}

bool has(char** environment, const char* variable) {
  for (; *environment != nullptr; ++environment) {
    if (names(*environment, variable)) return true;
  }
  return false;
}

/// A verb that runs a model, with more than one thread as far as the command line says.
bool will_have_threads(int count, char** arguments) {
  bool runs = false;
  for (const char* verb : {"run", "eval", "rescue", "study"}) {
    runs = runs || (count > 1 && std::strcmp(arguments[1], verb) == 0);
  }
  for (int i = 2; runs && i < count; ++i) {
    const bool next = std::strcmp(arguments[i], "--threads") == 0 && i + 1 < count;
    if ((next && std::strcmp(arguments[i + 1], "1") == 0) ||
        std::strcmp(arguments[i], "--threads=1") == 0) {
      runs = false;
    }
  }
  return runs;
}

/// Runs before any library is initialised; they are only linked. So this code allocates no memory,
/// and reads the environment that it is given.
__attribute__((no_sanitize("address", "undefined", "thread"))) void start_again(
    int count, char** arguments, char** environment) {
  constexpr std::size_t kMostEntries = 8192;
  if (!will_have_threads(count, arguments)) return;
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (has(environment, chosen)) return;
  }
  std::size_t entries = 0;
  while (environment[entries] != nullptr) ++entries;
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (entries > kMostEntries || length <= 0 || length == sizeof program) return;
  program[length] = '\0';
  char* changed[kMostEntries + 3];
  std::memcpy(changed, environment, entries * sizeof *changed);
  static char sleeping[] = "OMP_WAIT_POLICY=passive";
  static char blas[] = "OPENBLAS_THREAD_TIMEOUT=4";  // 2^4 ticks of the processor's clock, not 2^26
  changed[entries++] = sleeping;
  if (!has(environment, "OPENBLAS_THREAD_TIMEOUT")) changed[entries++] = blas;
  changed[entries] = nullptr;
  execve(program, arguments, changed);  // where this fails, threads spin
}

__attribute__((section(".preinit_array"), used)) void (*const first)(int, char**,
                                                                     char**) = start_again;

}  // namespace
