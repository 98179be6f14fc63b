#pragma once
// A value computed in the background under a key made of all its inputs.

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "app/job/job_queue.h"

namespace kvloupe::job {

/// One slot: the window asks for a key, a job computes its value, and a newer key cancels the older
/// job (at once, or when the keys have stopped changing). While a newer value is being computed the
/// last one stays readable, so that a picture is replaced in place. current() never returns an
/// outdated value, and a result that comes after its job was cancelled is never shown. A Key has
/// operator==; Key() means none.
///
/// All methods belong to the window's thread; only the job itself runs elsewhere.
template <class Value, class Key = std::string>
class Computed {
 public:
  /// The result of a job: a value, or one shared with others.
  class Result {
   public:
    Result(Value value) : value_(std::make_shared<const Value>(std::move(value))) {}
    Result(std::shared_ptr<const Value> value) : value_(std::move(value)) {}

   private:
    friend class Computed;
    std::shared_ptr<const Value> value_;
  };
  /// Publishes a value before the job's end (partial results). Safe from any thread.
  using Publish = std::function<void(Result)>;
  using Work = std::function<Result(Progress&, const Publish&)>;

  Computed() = default;
  ~Computed() { cancel(); }
  Computed(const Computed&) = delete;
  Computed& operator=(const Computed&) = delete;
  Computed(Computed&&) = delete;
  Computed& operator=(Computed&&) = delete;

  /// How far a job continues while new keys come faster than they can be seen.
  enum class Until { first_result, end };

  /// Starts `work` unless the value for this key exists or is being computed. `queue` must outlive
  /// the job, not this object. While keys change faster than every `rest` (a slider is dragged),
  /// the running job continues until its first result or its end, so that something is shown; ask
  /// again in every frame.
  void request(JobQueue& queue, const Key& key, Work work,
               std::chrono::milliseconds rest = std::chrono::milliseconds(0),
               Until until = Until::first_result) {
    want(key, rest.count() > 0);
    if (slot_ && slot_->key == key && (!abandoned() || progress_->stopped())) return;
    const bool resting = std::chrono::steady_clock::now() - wanted_since_ >= rest;
    if (slot_ && !resting && !(until == Until::end ? done() : done_or_published())) return;
    cancel();
    auto slot = std::make_shared<Slot>();
    slot->key = key;
    if (slot_) {
      const std::lock_guard lock(slot_->mutex);
      slot->value = slot_->value;
      slot->value_key = slot_->value_key;
      slot->complete = slot_->complete;
    }
    slot_ = slot;
    progress_ = queue.submit([slot, work = std::move(work), &queue](Progress& progress) {
      const auto take = [&](Result result, bool whole) {
        {
          const std::lock_guard lock(slot->mutex);
          if (progress.cancelled()) return;
          slot->value = std::move(result.value_);
          slot->value_key = slot->key;
          slot->complete = whole;
        }
        queue.wake();
      };
      std::string error;
      try {
        take(work(progress, [&](Result result) { take(std::move(result), false); }), true);
      } catch (const Cancelled&) {
      } catch (const std::bad_alloc&) {
        error = "Out of memory.";
      } catch (const std::exception& problem) {
        error = problem.what();
      }
      const std::lock_guard lock(slot->mutex);
      slot->error = std::move(error);
      slot->done = true;
    });
  }

  /// Announces the next key: any other value is no longer current, and a job for another key stops,
  /// unless it may continue until the next request decides.
  void want(const Key& key, bool may_go_on = false) {
    if (key == wanted_) return;
    wanted_ = key;
    wanted_since_ = std::chrono::steady_clock::now();
    if (!may_go_on) cancel();
  }

  /// Stops the running job and forgets the value.
  void clear() {
    cancel();
    slot_.reset();
    progress_.reset();
    wanted_ = Key();
  }

  /// A snapshot of the value and its key. A job may publish between two calls, so a caller that
  /// needs both asks here.
  struct Held {
    std::shared_ptr<const Value> value;  // the newest; nullptr: none yet
    Key key{};                           // of that value; Key() without one
    bool complete = false;               // the value is not a partial result
  };
  Held held() const {
    if (!slot_) return {};
    const std::lock_guard lock(slot_->mutex);
    return {slot_->value, slot_->value_key, slot_->complete};
  }
  /// The newest value: of the current key or, until that exists, of an earlier key; else nullptr.
  std::shared_ptr<const Value> value() const { return held().value; }
  /// The value, if it belongs to the current key (complete or partial).
  std::shared_ptr<const Value> current() const {
    const Held now = held();
    return now.key == wanted_ ? now.value : nullptr;
  }
  /// The value, if it belongs to the current key and is not a partial result.
  std::shared_ptr<const Value> whole() const {
    const Held now = held();
    return now.key == wanted_ && now.complete ? now.value : nullptr;
  }
  /// Ends the job of the current key for good: its published value stays, and request() does not
  /// begin it again until go_on() or another key.
  void stop() {
    if (progress_ && slot_ && slot_->key == wanted_ && !done()) progress_->stop();
  }
  bool stopped() const {
    return slot_ && slot_->key == wanted_ && progress_ && progress_->stopped() && abandoned();
  }
  /// The next request() computes the value from the beginning.
  void go_on() {
    if (!stopped()) return;
    const Held now = held();
    slot_ = std::make_shared<Slot>();
    slot_->value = now.value;
    slot_->value_key = now.key;
    slot_->done = true;
    progress_.reset();
  }

  /// The key asked for last.
  const Key& key() const { return wanted_; }
  /// Whether the value of key() is not yet there or not yet complete.
  bool computing() const {
    if (!slot_) return !(wanted_ == Key());
    if (stopped()) return false;
    return !(slot_->key == wanted_) || !done() || abandoned();
  }
  /// The progress of the job asked for last; nullptr without one.
  std::shared_ptr<const JobProgress> progress() const { return progress_; }
  /// 0 to 1, of the running job.
  double fraction() const { return progress_ ? progress_->fraction() : 0.0; }
  /// One line that says why there is no value for the current key; empty without an error.
  std::string error() const {
    if (!slot_ || !(slot_->key == wanted_)) return {};
    const std::lock_guard lock(slot_->mutex);
    return slot_->error;
  }

 private:
  struct Slot {
    Key key{};  // fixed once the slot is made
    std::mutex mutex;
    std::shared_ptr<const Value> value;
    Key value_key{};
    std::string error;
    bool complete = false;  // value is what the job returned
    bool done = false;
  };

  bool done() const {
    const std::lock_guard lock(slot_->mutex);
    return slot_->done;
  }
  bool done_or_published() const {
    const std::lock_guard lock(slot_->mutex);
    return slot_->done || slot_->value_key == slot_->key;
  }
  /// The job was cancelled before its end, so its value will never be complete.
  bool abandoned() const {
    if (!progress_ || !progress_->cancelled()) return false;
    const std::lock_guard lock(slot_->mutex);
    return !(slot_->value_key == slot_->key) || !slot_->complete;
  }
  void cancel() {
    if (progress_) progress_->cancel();
  }

  std::shared_ptr<Slot> slot_;
  std::shared_ptr<JobProgress> progress_;
  Key wanted_{};
  std::chrono::steady_clock::time_point wanted_since_;
};

}  // namespace kvloupe::job
