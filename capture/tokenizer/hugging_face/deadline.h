#pragma once

#include <chrono>

namespace kvloupe {

/// The moment by which a text must be cut, so that a hostile pattern ends in an error instead of
/// hanging. Honest patterns stay a hundred times below it.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(Clock::duration from_now) : end_(Clock::now() + from_now) {}
  bool is_past() const { return Clock::now() > end_; }

 private:
  Clock::time_point end_;
};

}  // namespace kvloupe
