#pragma once

namespace kvloupe {

/// How many threads to use, from how long they wait for processors that other programs have taken.
/// A product ends with its last piece: threads that share processors with others are waited for,
/// and fewer may be faster. The governor gives up as many threads as processors seem taken, and
/// keeps to that only where the rest then runs undisturbed: where it waits as well, there is no
/// free processor to keep to, and more threads have the larger share of those there are. After each
/// such trial it waits longer before the next, up to a limit. Knows neither clocks nor threads.
class ThreadGovernor {
 public:
  explicit ThreadGovernor(int wanted) : wanted_(wanted), threads_(wanted) {}

  /// For the next stretch of work; 1 to the wanted number.
  int threads() const { return threads_; }
  /// After a stretch of `passed` seconds, in which the threads, one and all, were ready to run for
  /// `waited` seconds without a processor. Returns threads().
  int look(double waited, double passed);

 private:
  enum class State { all, trial, fewer };

  int wanted_;
  int threads_;
  State state_ = State::all;
  int left_ = 0;      // looks until the next trial, of fewer or of all
  int patience_ = 4;  // looks between two trials
};

}  // namespace kvloupe
