#include "capture/run/thread_governor.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {
constexpr double kDisturbed = 0.2;     // seconds waited in a second, by all threads
constexpr double kUndisturbed = 0.15;  // by each of the fewer
constexpr int kLeastPatience = 4, kMostPatience = 64;
}  // namespace

int ThreadGovernor::look(double waited, double passed) {
  if (wanted_ == 1 || !(passed > 0.0)) return threads_;
  const double taken = std::max(waited, 0.0) / passed;  // processors
  if (left_ > 0) --left_;
  switch (state_) {
    case State::all:
      if (taken < kDisturbed && left_ == 0) patience_ = std::max(patience_ / 2, kLeastPatience);
      if (taken < kDisturbed || left_ > 0) break;
      threads_ = std::max(1, wanted_ - static_cast<int>(std::ceil(std::min(taken, 1e6))));
      state_ = State::trial;
      break;
    case State::trial: {
      const bool helps = taken <= kUndisturbed * threads_;
      state_ = helps ? State::fewer : State::all;
      if (!helps) threads_ = wanted_;
      left_ = patience_;
      patience_ = std::min(2 * patience_, kMostPatience);
      break;
    }
    case State::fewer:
      // The others may be gone, or have come to these processors as well.
      if (left_ > 0 && taken <= kUndisturbed * threads_) break;
      threads_ = wanted_;
      state_ = State::all;
      left_ = 0;
      break;
  }
  return threads_;
}

}  // namespace kvloupe
