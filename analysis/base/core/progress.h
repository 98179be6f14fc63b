#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "analysis/base/core/error.h"

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
  /// The steps are those of `of` things that a person counts, so many steps `each`: "layers". If
  /// several nested progresses count, the outermost is reported. `things` must last.
  void count(const char* things, long of, long each = 1) {
    of_ = of;
    each_ = std::max(each, 1L);
    things_ = things;
    tell_count();
  }
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
  /// "17 of 80 layers", as the last of those that count has told; nothing before.
  struct Counted {
    long done = 0, of = 0;
    const char* things = nullptr;
  };
  std::optional<Counted> counted() const {
    const std::lock_guard lock(counting_);
    if (counted_.things == nullptr) return std::nullopt;
    return counted_;
  }
  /// 0 to 1.
  double fraction() const {
    const long total = total_;
    return total > 0 ? static_cast<double>(done_) / static_cast<double>(total) : 0.0;
  }

 private:
  void add(long steps) {
    done_ += steps;
    tell_count();
    if (whole_ != nullptr) tell(static_cast<long>(fraction() * static_cast<double>(weight_)));
  }
  /// Passes on how much of the weight is done; several threads may call it.
  void tell(long done) {
    long before = told_;
    while (before < done && !told_.compare_exchange_weak(before, done)) {
    }
    if (before < done) whole_->add(done - before);
  }

  /// Tells the whole of all how many things are done, if no progress between counts its own.
  void tell_count() {
    const char* const things = things_;
    if (things == nullptr) return;
    Progress* outermost = this;
    while (outermost->whole_ != nullptr) {
      outermost = outermost->whole_;
      if (outermost->things_ != nullptr) return;
    }
    const std::lock_guard lock(outermost->counting_);
    outermost->counted_ = {std::min(done_ / each_, of_.load()), of_, things};
  }

  std::atomic<long> total_{0};
  std::atomic<long> done_{0};
  std::atomic<bool> cancelled_{false};
  Progress* const whole_ = nullptr;
  const long weight_ = 0;
  std::atomic<long> told_{0};
  std::atomic<long> of_{0}, each_{1};
  std::atomic<const char*> things_{nullptr};
  mutable std::mutex counting_;
  Counted counted_;  // where this is the whole of all
};

}  // namespace kvloupe
