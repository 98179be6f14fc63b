#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/child_process.h"
#include "analysis/descriptor.h"

namespace kvloupe {

class Progress;

/// Memory that this process and a child share: a file without a name. Grows; its content stays.
class SharedMemory {
 public:
  /// Throws WorkError where the system has none.
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int file() const { return file_; }
  std::size_t size() const { return size_; }
  /// Room for so many bytes; pointers from before are then invalid.
  void need(std::size_t bytes);
  std::byte* at(std::size_t offset) { return bytes_ + offset; }

 private:
  int file_ = -1;
  std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// A child `python3` that holds one function of a file of a person's and calls it on request. It
/// says and hears one JSON object per line over a socket; numbers are in memory that both share.
/// One thread at a time.
class PythonProcess {
 public:
  using Json = nlohmann::json;

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

  SharedMemory& memory() { return memory_; }

  /// Sends a request and waits for its end. Other answers that come first, {"ask": ...}, are
  /// questions that `answer` answers. Throws FileError with what Python raised, or where it does
  /// not answer in time or has ended; Cancelled.
  void request(const Json& message, const std::function<Json(const Json&)>& answer);

 private:
  void start();
  void send(const Json& message);
  Json receive();

  std::string file_;
  std::string function_;
  double seconds_;
  const Progress* progress_;
  SharedMemory memory_;
  Descriptor socket_;
  std::unique_ptr<ChildProcess> process_;
  std::string heard_;  // not a whole line yet
};

/// The program of the child (python_runner.cpp): arguments file, function, socket, memory.
extern const char* const kPythonRunner;

}  // namespace kvloupe
