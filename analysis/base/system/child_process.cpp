#include "analysis/base/system/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/descriptor.h"

namespace kvloupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 50;
constexpr auto kGrace = std::chrono::seconds(3);
constexpr std::size_t kLongestLine = std::size_t{1} << 20U;

/// A pipe that no other child inherits.
struct Pipe {
  Descriptor read, write;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw WorkError("cannot connect to another program: too many open files");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

/// Cuts a stream into lines.
class Lines {
 public:
  template <class Take>
  void add(const char* bytes, std::size_t count, const Take& take) {
    for (std::size_t i = 0; i < count; ++i) {
      if (bytes[i] == '\n') {
        take(line_);
        line_.clear();
      } else if (line_.size() < kLongestLine) {
        line_ += bytes[i];
      }
    }
  }
  template <class Take>
  void end(const Take& take) {
    if (!line_.empty()) take(line_);
    line_.clear();
  }

 private:
  std::string line_;
};

/// Copies of descriptors, all above the numbers that they get in the child, so that none takes
/// another's place: this process may have been started with its standard streams closed.
class HighDescriptors {
 public:
  explicit HighDescriptors(const ChildProcess::Descriptors& wanted) {
    constexpr int kAbove = 16;
    const Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const auto& [own, number] : wanted) {
      int copy = own < 0 ? -1 : fcntl(own, F_DUPFD_CLOEXEC, kAbove);
      if (copy < 0) copy = fcntl(null.value(), F_DUPFD_CLOEXEC, kAbove);
      owners_.emplace_back(copy);
      all_.emplace_back(copy, number);
    }
  }
  const ChildProcess::Descriptors& all() const { return all_; }

 private:
  std::vector<Descriptor> owners_;
  ChildProcess::Descriptors all_;
};

/// In the child, which shares the memory of its parent until exec: only calls that are safe there.
/// `error` is the parent's, who reads it where exec fails.
[[noreturn]] void become(char* const* argv, const ChildProcess::Descriptors& descriptors,
                         ChildProcess::Life life, pid_t parent, const sigset_t& signals,
                         volatile int& error) {
  setpgid(0, 0);  // a Ctrl-C in the terminal is the window's, which stops the child itself
  if (life == ChildProcess::Life::of_thread) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
  }
  for (const auto& [copy, number] : descriptors) dup2(copy, number);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvp(argv[0], argv);
  error = errno;
  _exit(127);
}

/// The child's id, or −1 with `error`. vfork() runs no handlers of fork(), which stop the threads
/// of OpenBLAS while other threads compute, and copies no page tables. No signal handler of this
/// process may run in the child, which shares its memory.
[[gnu::noinline]] pid_t start(char* const* argv, const ChildProcess::Descriptors& descriptors,
                              ChildProcess::Life life, volatile int& error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t id = vfork();
  if (id == 0) become(argv, descriptors, life, parent, before, error);
  if (id < 0) error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return id;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words, const Descriptors& descriptors,
                           Life life) {
  if (words.empty()) throw WorkError("the name of the program to start is missing");
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  const HighDescriptors high(descriptors);
  volatile int error = 0;
  id_ = start(argv.data(), high.all(), life, error);
  if (error == 0) return;
  if (id_ > 0) waitpid(id_, nullptr, 0);
  throw WorkError(words[0] + ": cannot be started: " + std::strerror(error));
}

ChildProcess::~ChildProcess() {
  if (id_ <= 0) return;
  kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
}

void ChildProcess::stop(int signal) const {
  if (id_ > 0) kill(id_, signal);
}

std::optional<ChildResult> ChildProcess::ended() {
  int status = 0;
  if (waitpid(id_, &status, WNOHANG) != id_) return std::nullopt;
  id_ = -1;
  ChildResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

ChildResult run_child(const std::vector<std::string>& words, Progress& progress,
                      const std::function<void(const std::string&)>& on_line,
                      const ChildOptions& options) {
  Pipe out, err;
  const auto started = Clock::now();
  ChildProcess child(words,
                     {{options.input, STDIN_FILENO},
                      {out.write.value(), STDOUT_FILENO},
                      {err.write.value(), STDERR_FILENO}},
                     ChildProcess::Life::of_thread);
  out.write.reset();
  err.write.reset();

  std::string last_error;
  Lines out_lines, err_lines;
  const auto take_error = [&](const std::string& line) {
    if (line.find_first_not_of(" \r\t") != std::string::npos) last_error = line;
  };
  std::array<pollfd, 2> ends = {pollfd{out.read.value(), POLLIN, 0},
                                pollfd{err.read.value(), POLLIN, 0}};
  std::array<char, 4096> bytes;
  const auto read_end = [&](std::size_t i) {
    const ssize_t count = read(ends[i].fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) {
      ends[i].fd = -1;
    } else if (i == 0) {
      out_lines.add(bytes.data(), static_cast<std::size_t>(count), on_line);
    } else {
      err_lines.add(bytes.data(), static_cast<std::size_t>(count), take_error);
    }
  };
  std::optional<Clock::time_point> asked;  // to stop
  std::optional<ChildResult> result;
  bool late = false;
  while (!result) {
    if (options.at_most.count() > 0 && !late && Clock::now() - started > options.at_most) {
      late = true;
      child.stop(SIGKILL);
    }
    if (progress.cancelled() && !asked) {
      asked = Clock::now();
      child.stop(SIGTERM);
    }
    if (asked && Clock::now() - *asked > kGrace) throw Cancelled();  // the destructor ends it
    const bool closed = ends[0].fd < 0 && ends[1].fd < 0;            // then it ends in a moment
    if (poll(ends.data(), ends.size(), closed ? 1 : kPollMilliseconds) > 0) {
      for (std::size_t i = 0; i < ends.size(); ++i) {
        if (ends[i].fd >= 0 && ends[i].revents != 0) read_end(i);
      }
    } else {
      result = child.ended();  // what it wrote before was there to be read
    }
  }
  out_lines.end(on_line);
  err_lines.end(take_error);
  if (asked) throw Cancelled();
  result->late = late;
  result->last_error = std::move(last_error);
  return *result;
}

std::string find_program(const std::string& name) {
  namespace fs = std::filesystem;
  const auto runs = [](const fs::path& file) {
    std::error_code error;
    return fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
  };
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error && runs(self.parent_path() / name)) return (self.parent_path() / name).string();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && runs(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  return {};
}

}  // namespace kvloupe
