// Stands for a program in tests: the process that tests/warm/server.cpp keeps ready runs its words,
// with this process's standard streams, folder, environment and limits; signals go on to it, and it
// ends as that process ends. Without a server, or where the server refuses, it becomes the program
// itself.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/warm/protocol.h"

using namespace kvloupe::warm;

namespace {

volatile sig_atomic_t process = 0;

void pass_on(int signal) {
  if (process > 0) kill(process, signal);
}

int connected(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return -1;
  std::strcpy(address.sun_path, path);
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? server : -1;
}

bool send_request(int server, int count, char** words) {
  Request request{};
  std::string texts;
  for (int index = 0; index < count; ++index) texts.append(words[index]).push_back('\0');
  request.words = static_cast<unsigned>(count);
  for (char** setting = environ; *setting != nullptr; ++setting) {
    if (std::strncmp(*setting, "KVLOUPE_WARM_", 13) == 0) continue;
    texts.append(*setting).push_back('\0');
    ++request.settings;
  }
  request.bytes = static_cast<unsigned>(texts.size());
  for (int limit = 0; limit < RLIM_NLIMITS; ++limit)
    getrlimit(static_cast<__rlimit_resource>(limit), &request.limits[limit]);
  request.mask = umask(0);
  umask(request.mask);
  const int passed[] = {0, 1, 2, open(".", O_RDONLY | O_CLOEXEC)};
  iovec part{&request, sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof passed)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof passed);
  std::memcpy(CMSG_DATA(header), passed, sizeof passed);
  if (sendmsg(server, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request)) return false;
  for (std::size_t at = 0; at < texts.size();) {
    const ssize_t sent = send(server, texts.data() + at, texts.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

/// One answer; signals that come meanwhile are passed on.
bool told(int server, int& answer) {
  ssize_t got = 0;
  while ((got = recv(server, &answer, sizeof answer, MSG_WAITALL)) < 0 && errno == EINTR) {
  }
  return got == static_cast<ssize_t>(sizeof answer);
}

}  // namespace

int main(int count, char** words) {
  const int server = connected(std::getenv(kSocket));
  int answer = 0;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all,
              &before);  // a signal that comes early waits until it can be passed on
  if (server < 0 || !send_request(server, count, words) || !told(server, answer) || answer <= 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    const char* program = std::getenv(kProgram);
    if (program != nullptr) execv(program, words);
    std::perror("warm: KVLOUPE_WARM_PROGRAM cannot be started");
    return 127;
  }
  process = answer;
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGCONT, SIGXFSZ, SIGXCPU}) {
    struct sigaction action {};
    action.sa_handler = pass_on;
    sigaction(signal, &action, nullptr);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!told(server, answer)) return 127;
  if (WIFEXITED(answer)) return WEXITSTATUS(answer);
  signal(WTERMSIG(answer), SIG_DFL);
  raise(WTERMSIG(answer));
  return 128 + WTERMSIG(answer);
}
