#include "tests/app/virtual_display.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace kvloupe::test {

namespace {

/// An Xvfb that lives as long as the process.
class VirtualDisplay {
 public:
  VirtualDisplay() {
    int ends[2];
    if (pipe(ends) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // also where the test crashes
      close(ends[0]);
      const std::string number = std::to_string(ends[1]);
      execlp("Xvfb", "Xvfb", "-displayfd", number.c_str(), "-screen", "0", "1600x1000x24",
             "-noreset", "-nolisten", "tcp", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    std::string answer;
    pollfd wait{ends[0], POLLIN, 0};
    constexpr int kMilliseconds = 20000;
    char c = 0;
    while (poll(&wait, 1, kMilliseconds) > 0 && read(ends[0], &c, 1) == 1 && c != '\n') answer += c;
    close(ends[0]);
    if (answer.empty()) return;
    ready_ = true;
    setenv("DISPLAY", (":" + answer).c_str(), 1);
  }
  ~VirtualDisplay() {
    if (child_ <= 0) return;
    kill(child_, SIGTERM);
    waitpid(child_, nullptr, 0);
  }
  bool ready() const { return ready_; }

 private:
  pid_t child_ = -1;
  bool ready_ = false;
};

}  // namespace

std::string need_own_display() {
  static const VirtualDisplay virtual_display;
  return virtual_display.ready() ? ""
                                 : "no display, and no Xvfb to make one: install the package xvfb";
}

std::string need_display() {
  const char* display = std::getenv("DISPLAY");
  return display && *display ? "" : need_own_display();
}

}  // namespace kvloupe::test
