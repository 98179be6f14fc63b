#include "analysis/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "analysis/error.h"

namespace kvloupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 50;
constexpr auto kGrace = std::chrono::seconds(3);
constexpr std::size_t kLongestLine = std::size_t{1} << 20U;

/// The same, by a number that no standard stream has: this process may have been started with those
/// closed, and the child would take one end for another. −1 where there is none left.
int above_standard(int descriptor) {
  if (descriptor > STDERR_FILENO) return descriptor;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(descriptor);
  return moved;
}

/// A pipe that no other child inherits.
struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw WorkError("cannot connect to another program: too many open files");
    read = above_standard(ends[0]);
    write = above_standard(ends[1]);
    if (read < 0 || write < 0) {
      close_read();
      close_write();
      throw WorkError("cannot connect to another program: too many open files");
    }
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() {
    if (read >= 0) close(std::exchange(read, -1));
  }
  void close_write() {
    if (write >= 0) close(std::exchange(write, -1));
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

/// What the child gets.
struct Ends {
  int in, out, err, failure;  // in: -1 for /dev/null
};

/// In the child, which shares the memory of its parent until exec: only what is safe there.
[[noreturn]] void become(char* const* argv, const Ends& ends, pid_t parent,
                         const sigset_t& signals) {
  setpgid(0, 0);  // a Ctrl-C in the terminal is the window's, which stops the child itself
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  const int in = ends.in >= 0 ? ends.in : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in == STDIN_FILENO) {
    fcntl(in, F_SETFD, 0);  // dup2() would leave it to be closed
  } else if (in >= 0) {
    dup2(in, STDIN_FILENO);
  }
  dup2(ends.out, STDOUT_FILENO);
  dup2(ends.err, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvp(argv[0], argv);
  const int why = errno;
  const ssize_t written = write(ends.failure, &why, sizeof why);
  _exit(written == sizeof why ? 127 : 126);
}

/// The child's id, or -1. vfork() runs no handlers of fork(), which stop the threads of OpenBLAS
/// while other threads compute, and copies no page tables. No signal handler of this process may
/// run in the child, which shares its memory.
[[gnu::noinline]] pid_t start(char* const* argv, const Ends& ends) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t id = vfork();
  if (id == 0) become(argv, ends, parent, before);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return id;
}

/// The child, stopped and reaped whatever happens.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void stop(int signal) const {
    if (id_ > 0) kill(id_, signal);
  }
  /// How it ended; nothing while it runs.
  std::optional<ChildResult> ended() {
    int status = 0;
    if (waitpid(id_, &status, WNOHANG) != id_) return std::nullopt;
    id_ = -1;
    ChildResult result;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return result;
  }

 private:
  pid_t id_;
};

}  // namespace

ChildResult run_child(const std::vector<std::string>& words, Progress& progress,
                      const std::function<void(const std::string&)>& on_line,
                      const ChildOptions& options) {
  if (words.empty()) throw WorkError("the name of the program to start is missing");
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);

  Pipe out, err, failure;
  const auto started = Clock::now();
  const pid_t id = start(argv.data(), {options.input, out.write, err.write, failure.write});
  if (id < 0) throw WorkError(words[0] + ": cannot be started: " + std::strerror(errno));
  Child child(id);
  out.close_write();
  err.close_write();
  failure.close_write();
  int why = 0;
  if (read(failure.read, &why, sizeof why) == sizeof why) {
    throw WorkError(words[0] + ": cannot be started: " + std::strerror(why));
  }

  std::string last_error;
  Lines out_lines, err_lines;
  const auto take_error = [&](const std::string& line) {
    if (line.find_first_not_of(" \r\t") != std::string::npos) last_error = line;
  };
  std::array<pollfd, 2> ends = {pollfd{out.read, POLLIN, 0}, pollfd{err.read, POLLIN, 0}};
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
