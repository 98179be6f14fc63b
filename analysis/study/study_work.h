#pragma once
// The work of a study: the task of a process, its outcome, and the worker that computes it.

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/policy/kit/shared_prefix.h"
#include "analysis/replay/measure/shared_measures.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/study/study_plan.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// One item, with all that a process needs to compute it.
struct StudyTask {
  int item = 0;               // its number in the plan
  StudySource source = {};    // of a task: what is run
  std::string trace = {};     // the trace of a replay, or the prompt's file
  std::string identity = {};  // of a replay's trace
  std::string model = {};     // of a task: the folder, and how it runs
  std::string dtype = "auto";
  bool chat = false;  // Study::chat and Study::system
  std::string system = {};
  bool compact = false;
  std::string probe = "repeat";
  std::string budget = {};  // as written
  std::string policy = {};
  int entries = 0;
  int block = 0;
  std::string compression = {};
  std::vector<std::string> measures = {};  // of the item's task
  /// The largest budget of the task's other runs, as written: shared data of these.
  std::string largest_budget = {};
  Reduce reduce = Reduce::steps;
};

/// One number. NaN: unknown, or the measure does not apply.
struct StudyValue {
  int measure = 0;  // index into the task's measures
  int layer = -1;   // −1: the mean over all heads
  int head = -1;    // −1 with a layer: of the layer, where the measure has no heads
  int step = -1;    // −1: of the whole replay
  double value = 0.0;
};

/// A prompt that ran in the model, stored so that it can run again.
struct StudyPrompt {
  std::string stored;    // JSON (capture/eval/stored_prompt.h); empty: not known
  std::string expected;  // JSON: a list of the right answers; empty where the task has none
  std::string answer;    // what the model said
};

/// How strongly a query head has a role with the full cache (analysis/math/head_roles.h).
struct StudyRole {
  int layer = 0;
  int head = 0;        // key-value head
  int query_head = 0;  // of the layer
  int role = 0;        // index into role_catalog()
  double value = 0.0;  // NaN: the trace has no query to tell
};

/// The outcome of an item.
struct StudyOutcome {
  int item = 0;
  std::string problem;  // one line; empty: it was computed
  double seconds = 0.0;
  std::vector<StudyValue> values;  // ascending by measure, layer, head, step
  int entries = 0;                 // the budget, where the plan did not know it
  bool at_once = false;            // the policy acted once on the whole prompt or its context
  StudyPrompt prompt = {};         // of a run in the model
  std::string model = {};          // fingerprint of the model that made a replay's trace, if known
  std::vector<StudyRole> roles = {};  // of the trace, with one outcome of each worker
  std::exception_ptr failure = {};    // the problem as it was thrown, within a process
};

/// Where the outcomes of a study's items are kept.
class OutcomeStore {
 public:
  virtual ~OutcomeStore() = default;
  /// Of every item of the plan: "waiting", "done" or "failed".
  virtual std::vector<std::string> states() = 0;
  virtual void record(const StudyOutcome& outcome) = 0;
};

/// Computes items of one kind, one after the other.
class ItemWorker {
 public:
  ItemWorker() = default;
  virtual ~ItemWorker() = default;
  ItemWorker(const ItemWorker&) = delete;
  ItemWorker& operator=(const ItemWorker&) = delete;
  /// Any failure is the outcome's problem.
  StudyOutcome compute(const StudyTask& task);
  /// Items of one trace or prompt, at most most_together() of them: one outcome for each.
  virtual std::vector<StudyOutcome> compute_all(std::span<const StudyTask> tasks);
  virtual int most_together() const { return 1; }

 protected:
  /// Fills in values and entries; throws what went wrong.
  virtual void compute(const StudyTask& task, StudyOutcome& outcome) = 0;
};

/// Replays items. The trace of the last one stays open and its states in memory, up to 1 GiB, so
/// that replays of one trace read its states once; and measures of the trace or of the full cache,
/// up to 256 MiB, so that they are computed once.
class StudyWorker final : public ItemWorker {
 public:
  /// `threads`: of each replay; 0: all cores. Values do not depend on the number.
  explicit StudyWorker(int threads = 0);
  using ItemWorker::compute;

 private:
  void compute(const StudyTask& task, StudyOutcome& outcome) override;
  void open(const StudyTask& task);
  std::vector<StudyRole> roles();
  std::vector<StudyValue> values(const StudyTask& task);

  int threads_;
  LayerStatesCache states_;
  std::unique_ptr<Trace> trace_;
  std::string model_;                  // that made trace_
  bool roles_told_ = false;            // those of trace_
  std::vector<std::string> measures_;  // that shared_ is of, with trace_
  std::unique_ptr<SharedMeasures> shared_;
  std::unique_ptr<SharedPrefix> prefix_;  // of trace_
};

/// Task and outcome as bytes, for a process of the same program on a machine of the same kind.
std::string to_bytes(const StudyTask& task);
std::string to_bytes(const StudyOutcome& outcome);
StudyTask task_of(const std::string& bytes);
StudyOutcome outcome_of(const std::string& bytes);

}  // namespace kvloupe
