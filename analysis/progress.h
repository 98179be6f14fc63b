#pragma once

#include <atomic>

#include "analysis/error.h"

namespace kvloupe {

/// Progress and cancellation of one computation. Loops call advance(); it throws Cancelled after
/// the owner asked to stop, so loops need no cancellation code. Thread-safe.
class Progress {
 public:
  Progress() = default;
  /// A part of `whole`. Its progress counts as `weight` steps of `whole`, in proportion, and
  /// cancelling `whole` cancels the part. `whole` must outlive it.
  Progress(Progress& whole, long weight) : whole_(&whole), weight_(weight) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set_total(long total) { total_ = total; }
  /// Throws Cancelled after cancel().
  void advance(long steps = 1) {
    add(steps);
    check();
  }
  /// Marks the part as done, however many steps it took.
  void finish() {
    if (whole_ != nullptr) tell(weight_);
  }
  void check() const {
    if (cancelled()) throw Cancelled();
  }
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_ || (whole_ != nullptr && whole_->cancelled()); }
  /// 0 to 1.
  double fraction() const {
    const long total = total_;
    return total > 0 ? static_cast<double>(done_) / static_cast<double>(total) : 0.0;
  }

 private:
  void add(long steps) {
    done_ += steps;
    if (whole_ != nullptr) tell(static_cast<long>(fraction() * static_cast<double>(weight_)));
  }
  /// Passes on how much of the weight is done; several threads may call it.
  void tell(long done) {
    long before = told_;
    while (before < done && !told_.compare_exchange_weak(before, done)) {
    }
    if (before < done) whole_->add(done - before);
  }

  std::atomic<long> total_{0};
  std::atomic<long> done_{0};
  std::atomic<bool> cancelled_{false};
  Progress* const whole_ = nullptr;
  const long weight_ = 0;
  std::atomic<long> told_{0};
};

}  // namespace kvloupe
