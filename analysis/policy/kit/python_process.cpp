#include "analysis/policy/kit/python_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "analysis/error.h"
#include "analysis/progress.h"
#include "analysis/text.h"

namespace kvloupe {

namespace {

constexpr std::size_t kFirstBytes = std::size_t{1} << 20U;
constexpr std::size_t kLongestLine = std::size_t{1} << 20U;
constexpr std::size_t kLongestError = 500;
constexpr int kChildSocket = 3;
constexpr int kChildMemory = 4;
constexpr auto kGrace = std::chrono::milliseconds(300);

[[noreturn]] void no_resource(const std::string& what) {
  throw WorkError("python: " + what + " (" + std::strerror(errno) + ")");
}

/// The Python that runs functions of a person's: that of $KVLOUPE_PYTHON3, which the Python package
/// sets to its own.
std::string python_to_run() {
  const char* named = std::getenv("KVLOUPE_PYTHON3");
  return named != nullptr && *named != '\0' ? named : "python3";
}

std::string error_of_python(const std::string& said) {
  return in_one_line(said, kLongestError) + " (run by " + python_to_run() + ")";
}

}  // namespace

SharedMemory::SharedMemory() : file_(memfd_create("kvloupe-states", MFD_CLOEXEC)) {
  if (file_ < 0) no_resource("the system gives no shared memory");
  try {
    need(kFirstBytes);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SharedMemory::~SharedMemory() {
  if (bytes_ != nullptr) ::munmap(bytes_, size_);
  ::close(file_);
}

void SharedMemory::need(std::size_t bytes) {
  if (bytes <= size_) return;
  const std::size_t size = std::max(bytes, 2 * size_);
  if (::ftruncate(file_, static_cast<off_t>(size)) != 0) no_resource("shared memory cannot grow");
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) no_resource("shared memory cannot be mapped");
  if (bytes_ != nullptr) ::munmap(bytes_, size_);
  bytes_ = static_cast<std::byte*>(mapped);
  size_ = size;
}

PythonProcess::PythonProcess(std::string file, std::string function, double seconds,
                             const Progress* progress)
    : file_(std::move(file)),
      function_(std::move(function)),
      seconds_(seconds),
      progress_(progress) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file_, error)) {
    throw FileError(file_, "is not a file; give the path of a Python file");
  }
  start();
  const Json ready = receive();
  if (ready.contains("error")) {
    throw FileError(file_, error_of_python(ready["error"].get<std::string>()));
  }
}

PythonProcess::~PythonProcess() {
  socket_.reset();  // the child reads the end of its input
  // Who cancels a run does not wait for one child after the other.
  if (progress_ != nullptr && progress_->cancelled()) return;
  const auto last = std::chrono::steady_clock::now() + kGrace;
  while (!process_->ended() && std::chrono::steady_clock::now() < last) ::usleep(1000);
}

void PythonProcess::start() {
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    no_resource("there is no socket for the child process");
  }
  socket_.reset(sockets[0]);
  const Descriptor far_end(sockets[1]);
  const std::vector<std::string> words = {python_to_run(),
                                          "-c",
                                          kPythonRunner,
                                          file_,
                                          function_,
                                          std::to_string(kChildSocket),
                                          std::to_string(kChildMemory)};
  try {
    // The function's output is not a result. The thread that starts it may end before.
    process_ =
        std::make_unique<ChildProcess>(words,
                                       ChildProcess::Descriptors{{-1, STDIN_FILENO},
                                                                 {STDERR_FILENO, STDOUT_FILENO},
                                                                 {STDERR_FILENO, STDERR_FILENO},
                                                                 {far_end.value(), kChildSocket},
                                                                 {memory_.file(), kChildMemory}},
                                       ChildProcess::Life::own);
  } catch (const WorkError& error) {
    const std::string line = error.what();
    throw WorkError("python: the program " + python_to_run() + " cannot be started (" +
                    line.substr(line.rfind(": ") + 2) +
                    "); install it, put it in $PATH, or name another in $KVLOUPE_PYTHON3");
  }
}

void PythonProcess::send(const Json& message) {
  const std::string line = message.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t now =
        ::send(socket_.value(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) throw FileError(file_, "Python has ended before " + function_ + " was done");
    sent += static_cast<std::size_t>(now);
  }
}

PythonProcess::Json PythonProcess::receive() {
  using Clock = std::chrono::steady_clock;
  const auto last = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(seconds_));
  for (std::size_t end = heard_.find('\n');; end = heard_.find('\n')) {
    if (end != std::string::npos) {
      const Json message = Json::parse(heard_.substr(0, end), nullptr, false);
      heard_.erase(0, end + 1);
      if (!message.is_object()) throw FileError(file_, "Python's answer cannot be read");
      return message;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(last - Clock::now());
    if (left.count() <= 0 || heard_.size() > kLongestLine) {
      process_->stop(SIGKILL);
      char limit[32];
      std::snprintf(limit, sizeof limit, "%g", seconds_);
      throw FileError(file_, function_ + " took longer than " + limit +
                                 " s; make it faster, or raise the parameter timeout");
    }
    if (progress_ != nullptr && progress_->cancelled()) {
      process_->stop(SIGKILL);
      throw Cancelled();
    }
    pollfd wait = {socket_.value(), POLLIN, 0};
    constexpr std::chrono::milliseconds::rep kLongestWait = 50;  // then it looks for a cancel again
    if (::poll(&wait, 1, static_cast<int>(std::min(left.count() + 1, kLongestWait))) <= 0) continue;
    char bytes[4096];
    const ssize_t now = ::recv(socket_.value(), bytes, sizeof bytes, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) throw FileError(file_, "Python has ended before " + function_ + " was done");
    heard_.append(bytes, static_cast<std::size_t>(now));
  }
}

void PythonProcess::request(const Json& message, const std::function<Json(const Json&)>& answer) {
  send(message);
  for (;;) {
    const Json said = receive();
    if (said.contains("done")) return;
    if (said.contains("ask")) {
      send(answer(said));
      continue;
    }
    const std::string error = said.value("error", "");
    throw FileError(file_, error_of_python(error));
  }
}

}  // namespace kvloupe
