#include "analysis/policy/kit/python_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/core/progress.h"
#include "analysis/base/text/text.h"

namespace kvloupe {

namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20U;
constexpr std::size_t kLongestError = 500;
constexpr std::size_t kLargestAnswer = std::size_t{1} << 30U;  // of an answer
constexpr int kChildSocket = 3;
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

void PythonMessage::add(const MatrixView& rows) {
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    numbers.append(reinterpret_cast<const char*>(rows.data() + row * rows.outerStride()),
                   sizeof(float) * static_cast<std::size_t>(rows.cols()));
  }
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
  if (const auto ready = receive().facts; ready.contains("error")) {
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
  const std::vector<std::string> words = {python_to_run(), "-c",      kPythonRunner,
                                          file_,           function_, std::to_string(kChildSocket)};
  try {
    // The function's output is not a result. The thread that starts it may end before.
    process_ =
        std::make_unique<ChildProcess>(words,
                                       ChildProcess::Descriptors{{-1, STDIN_FILENO},
                                                                 {STDERR_FILENO, STDOUT_FILENO},
                                                                 {STDERR_FILENO, STDERR_FILENO},
                                                                 {far_end.value(), kChildSocket}},
                                       ChildProcess::Life::own);
  } catch (const WorkError& error) {
    const std::string line = error.what();
    throw WorkError("python: the program " + python_to_run() + " cannot be started (" +
                    line.substr(line.rfind(": ") + 2) +
                    "); install it, put it in $PATH, or name another in $KVLOUPE_PYTHON3");
  }
}

PythonProcess::Clock::time_point PythonProcess::deadline() const {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
}

void PythonProcess::wait(short event, Clock::time_point last) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(last - Clock::now());
  if (left.count() <= 0) {
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
  pollfd one = {socket_.value(), event, 0};
  constexpr std::chrono::milliseconds::rep kLongestWait = 50;  // then it looks for a cancel again
  ::poll(&one, 1, static_cast<int>(std::min(left.count() + 1, kLongestWait)));
}

void PythonProcess::send(PythonMessage message) {
  const auto last = deadline();
  message.facts["bytes"] = message.numbers.size();
  message.numbers.insert(0, message.facts.dump() + "\n");
  for (std::string_view left = message.numbers; !left.empty();) {
    const ssize_t now =
        ::send(socket_.value(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now >= 0) {
      left.remove_prefix(static_cast<std::size_t>(now));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, last);
    } else if (errno != EINTR) {
      throw FileError(file_, "Python has ended before " + function_ + " was done");
    }
  }
}

void PythonProcess::hear(std::size_t bytes, Clock::time_point last) {
  std::array<char, 1 << 16> part{};
  while (heard_.size() < bytes) {
    const ssize_t now = ::recv(socket_.value(), part.data(), part.size(), MSG_DONTWAIT);
    if (now > 0) {
      heard_.append(part.data(), static_cast<std::size_t>(now));
    } else if (now < 0 && errno == EAGAIN) {
      wait(POLLIN, last);
    } else if (now == 0 || errno != EINTR) {
      throw FileError(file_, "Python has ended before " + function_ + " was done");
    }
  }
}

PythonMessage PythonProcess::receive() {
  const auto last = deadline();
  std::size_t end = heard_.find('\n');
  for (; end == std::string::npos && heard_.size() < kLongestLine; end = heard_.find('\n'))
    hear(heard_.size() + 1, last);
  PythonMessage message{nlohmann::json::parse(heard_.substr(0, end), nullptr, false)};
  const std::size_t bytes = message.facts.is_object() ? message.facts.value("bytes", 0U) : 0U;
  if (!message.facts.is_object() || bytes > kLargestAnswer)
    throw FileError(file_, "Python's answer cannot be read");
  heard_.erase(0, end + 1);
  hear(bytes, last);
  message.numbers = heard_.substr(0, bytes);
  heard_.erase(0, bytes);
  return message;
}

std::vector<float> PythonProcess::request(
    PythonMessage message, std::size_t scores,
    const std::function<PythonMessage(const nlohmann::json& asked)>& answer) {
  send(std::move(message));
  for (;;) {
    const PythonMessage said = receive();
    if (said.facts.contains("ask")) {
      send(answer(said.facts));
    } else if (said.facts.contains("error")) {
      throw FileError(file_, error_of_python(said.facts.value("error", "")));
    } else if (said.numbers.size() != scores * sizeof(float)) {
      throw FileError(file_, "Python's answer cannot be read");
    } else {
      std::vector<float> result(scores);
      std::memcpy(result.data(), said.numbers.data(), said.numbers.size());
      return result;
    }
  }
}

}  // namespace kvloupe
