// A program that has started already: loaded in front of it (LD_PRELOAD), this library lets the
// program's libraries load and begin, and then waits where main would be called. For each request
// of tests/warm/client.cpp the process forks, and the child calls main with the request's words, as
// a process that was started with them. libtorch takes half a second to load; the fork takes
// milliseconds. Tests that start kvloupe-capture some hundred times use it.
//
// Not the same as a start: the dynamic loader, and what libraries read of the environment while
// they load. A request whose environment differs in what they read is refused, and its client
// starts the program itself.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/warm/protocol.h"

namespace kvloupe::warm {
namespace {

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

constexpr int kPassed = 4;  // descriptors: standard input, output, errors, and the working folder

bool read_at_load(std::string_view setting) {
  for (const std::string_view begin :
       {"LD_", "OMP_", "GOMP_", "OPENBLAS_", "MKL_", "ATEN_", "TORCH_", "OMPI_", "PMIX_", "MALLOC_",
        "GLIBC_", "LC_", "LANG", "DNNL_", "TBB_", "HDF5_"})
    if (setting.starts_with(begin)) return true;
  return false;
}

std::set<std::string> settings_read_at_load(char** settings) {
  std::set<std::string> found;
  for (; *settings != nullptr; ++settings)
    if (read_at_load(*settings)) found.insert(*settings);
  return found;
}

bool receive(int from, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(from, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

struct Received {
  Request request{};
  int passed[kPassed] = {-1, -1, -1, -1};
  std::vector<char> texts;
};

bool receive_request(int from, Received& received) {
  iovec part{&received.request, sizeof received.request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof received.passed)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof received.passed)) return false;
  std::memcpy(received.passed, CMSG_DATA(header), sizeof received.passed);
  const auto rest = sizeof received.request - static_cast<std::size_t>(got);
  if (!receive(from, reinterpret_cast<char*>(&received.request) + got, rest)) return false;
  received.texts.resize(received.request.bytes);
  return receive(from, received.texts.data(), received.texts.size());
}

/// In the child: becomes a process with the client's surroundings, and runs the program.
[[noreturn]] void run(Received& received, const sigset_t& signals) {
  std::vector<char*> words;
  std::vector<char*> settings;
  char* at = received.texts.data();
  for (unsigned index = 0; index < received.request.words + received.request.settings; ++index) {
    (index < received.request.words ? words : settings).push_back(at);
    at += std::strlen(at) + 1;
  }
  words.push_back(nullptr);
  clearenv();
  for (char* setting : settings) putenv(setting);
  for (int target = 0; target < 3; ++target) dup2(received.passed[target], target);
  if (fchdir(received.passed[3]) != 0) _exit(127);
  for (const int passed : received.passed) close(passed);
  umask(received.request.mask);
  for (int limit = 0; limit < RLIM_NLIMITS; ++limit)
    setrlimit(static_cast<__rlimit_resource>(limit), &received.request.limits[limit]);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  exit(program_main(static_cast<int>(received.request.words), words.data(), environ));
}

int serve(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(door, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(door, 64) != 0) {
    std::perror("warm: cannot wait at this socket");
    return 1;
  }
  const auto own = settings_read_at_load(environ);
  sigset_t ends;
  sigset_t before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, &before);
  const int ended = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  std::map<int, pid_t> clients;  // by their sockets

  for (;;) {
    std::vector<pollfd> watched{{door, POLLIN, 0}, {ended, POLLIN, 0}, {STDIN_FILENO, 0, 0}};
    for (const auto& [client, process] : clients) watched.push_back({client, POLLRDHUP, 0});
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[2].revents != 0) return 0;  // who started the server has ended
    if (watched[1].revents != 0) {
      signalfd_siginfo told;
      while (read(ended, &told, sizeof told) > 0) {
      }
      int status = 0;
      for (pid_t process = 0; (process = waitpid(-1, &status, WNOHANG)) > 0;)
        for (auto at = clients.begin(); at != clients.end(); ++at)
          if (at->second == process) {
            const Ended answer = status;
            (void)!send(at->first, &answer, sizeof answer, MSG_NOSIGNAL);
            close(at->first);
            clients.erase(at);
            break;
          }
    }
    for (std::size_t index = 3; index < watched.size(); ++index) {  // a client was killed
      const auto found = clients.find(watched[index].fd);
      if (watched[index].revents != 0 && found != clients.end()) kill(found->second, SIGKILL);
    }
    if (watched[0].revents == 0) continue;
    const int client = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    Received received;
    bool good = receive_request(client, received);
    if (good) {
      std::set<std::string> wanted;
      const char* at = received.texts.data();
      for (unsigned index = 0; index < received.request.words + received.request.settings;
           ++index) {
        if (index >= received.request.words && read_at_load(at)) wanted.insert(at);
        at += std::strlen(at) + 1;
      }
      good = wanted == own;
    }
    const Started process = good ? fork() : 0;
    if (good && process == 0) {
      close(door);
      close(ended);
      close(client);
      for (const auto& [other, unused] : clients) close(other);
      run(received, before);
    }
    for (const int passed : received.passed)
      if (passed >= 0) close(passed);
    (void)!send(client, &process, sizeof process, MSG_NOSIGNAL);
    if (good && process > 0)
      clients.emplace(client, process);
    else
      close(client);
  }
}

int wait_for_requests(int count, char** words, char** settings) {
  const char* path = std::getenv(kSocket);
  if (path == nullptr) return program_main(count, words, settings);
  unsetenv("LD_PRELOAD");
  const std::string kept = path;
  unsetenv(kSocket);
  return serve(kept.c_str());
}

}  // namespace
}  // namespace kvloupe::warm

using Finish = void (*)();

/// Called by every program's first instructions; the system's own version calls main.
extern "C" [[gnu::visibility("default")]] int __libc_start_main(kvloupe::warm::Main program,
                                                                int count, char** words,
                                                                Finish init, Finish fini,
                                                                Finish loader, void* stack) {
  using Start = int (*)(kvloupe::warm::Main, int, char**, Finish, Finish, Finish, void*);
  kvloupe::warm::program_main = program;
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(kvloupe::warm::wait_for_requests, count, words, init, fini, loader, stack);
}
