#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/system/child_process.h"
#include "analysis/base/system/descriptor.h"

namespace kvloupe {

class Progress;

/// A message between this process and a child.
struct PythonMessage {
  nlohmann::json facts;
  std::string numbers = {};  // of 4 bytes each, behind the facts
  void add(const MatrixView& rows);
};

/// A child `python3` that holds one function of a file of a person's and calls it on request. It
/// says and hears one JSON object per line over a socket, with numbers behind it. One thread at a
/// time.
class PythonProcess {
 public:
  /// Starts it and loads the file. `seconds`: the longest time for an answer, loading included.
  /// `progress`, which may be null and must outlive this: cancelling it ends the child, and the
  /// call that waits for it throws Cancelled. The child also ends when this process does, in any
  /// way. Throws FileError, naming the file, where the file is missing, fails while it is loaded or
  /// has no such function; WorkError where python3 cannot be started.
  PythonProcess(std::string file, std::string function, double seconds,
                const Progress* progress = nullptr);
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  /// Sends a request and waits for its end: so many scores. Other answers that come first, {"ask":
  /// ...}, are questions that `answer` answers. Throws FileError with what Python raised, or where
  /// it does not answer in time or has ended; Cancelled.
  std::vector<float> request(
      PythonMessage message, std::size_t scores,
      const std::function<PythonMessage(const nlohmann::json& asked)>& answer);

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  void send(PythonMessage message);
  PythonMessage receive();
  Clock::time_point deadline() const;
  /// Until the socket may be ready for this event of poll(). Ends the child at `last`, or when the
  /// work is cancelled.
  void wait(short event, Clock::time_point last);
  /// Reads until so many bytes are there.
  void hear(std::size_t bytes, Clock::time_point last);

  std::string file_;
  std::string function_;
  double seconds_;
  const Progress* progress_;
  Descriptor socket_;
  std::unique_ptr<ChildProcess> process_;
  std::string heard_;  // what has not been read yet
};

/// The program of the child (python_runner.cpp): arguments file, function, socket.
extern const char* const kPythonRunner;

}  // namespace kvloupe
