#pragma once

#include <atomic>

#include "analysis/error.h"

namespace kvloupe {

/// Progress and cancellation of one computation. Loops call advance(); it throws Cancelled when
/// the owner asked to stop, so that loops need no cancellation code. Safe to share by threads.
class Progress {
 public:
  void set_total(long total) { total_ = total; }
  /// Throws Cancelled after cancel().
  void advance(long steps = 1) {
    done_ += steps;
    check();
  }
  void check() const {
    if (cancelled_) throw Cancelled();
  }
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }
  /// 0 to 1.
  double fraction() const {
    const long total = total_;
    return total > 0 ? static_cast<double>(done_) / static_cast<double>(total) : 0.0;
  }

 private:
  std::atomic<long> total_{0};
  std::atomic<long> done_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace kvloupe
