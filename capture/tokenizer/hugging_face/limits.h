#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>

#include "analysis/base/core/error.h"

namespace kvloupe {

/// How long a tokenizer may take for a text, and how many bytes the text may become, so that a
/// hostile tokenizer.json ends in an error instead of hanging or filling the memory. Ordinary files
/// stay far below both.
class Limits {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Limits(Clock::duration from_now,
                  std::size_t most_bytes = std::numeric_limits<std::size_t>::max())
      : end_(Clock::now() + from_now), most_bytes_(most_bytes) {}

  /// Throws WorkError after the time limit.
  void check_time() const {
    if (Clock::now() > end_) throw WorkError("the tokenizer.json takes too long to apply");
  }
  /// Throws WorkError after the time limit, or if the text is longer than allowed.
  void check(std::size_t bytes) const {
    check_time();
    if (bytes > most_bytes_) {
      throw WorkError("the tokenizer.json makes the text longer than " +
                      std::to_string(most_bytes_) + " bytes");
    }
  }

 private:
  Clock::time_point end_;
  std::size_t most_bytes_;
};

}  // namespace kvloupe
