#pragma once
// Measurements for the window: the values at the step in hand, and no others.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/replay/record/records.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/given_tokens.h"
#include "app/figure/replay_service.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"
#include "app/session/state.h"
#include "app/window/state/results.h"
#include "app/window/state/step_tokens.h"

namespace kvloupe::window {

/// A policy's changes in the model as a whole, for later queries.
struct WholeModel {
  Asked asked = Asked::later;
  int queries = 0;
  double change = 0.0;       // of all heads together
  double worst_error = 0.0;  // of a layer
  int worst_layer = -1;
};

/// Known results for the state in this frame: the replays of the selected head, the steps, the
/// fates of the tokens, the measures at the step shown. The replays are those that the views show,
/// too (ReplayService). While something newer is computed, what was known before stays where it
/// belongs to the same trace.
class ShownResults {
 public:
  /// Both outlive this. `wake` ends the window's sleep; called from worker threads.
  ShownResults(const WorkspaceState& state, Results& results, std::function<void()> wake);

  /// Call once per frame, when a trace is open and the state is in its range.
  void follow();
  /// Whether what follow() has seen is of the open trace.
  bool is_of_open_trace() const { return trace_key_ == results_.trace_key(); }
  /// Whether a number that is shown is still to come.
  bool waiting() const;

  /// The steps of the replay; empty without a trace.
  const std::vector<Block>& blocks() const { return blocks_; }
  int step_count() const { return static_cast<int>(blocks_.size()); }
  /// The step shown: the selected one, else the last of the prompt; 0 without a trace.
  int step() const;

  /// In how many heads a token is in the cache after the step shown, under policy A, of how many
  /// whose replay is there.
  std::pair<int, int> heads_keeping(int token) const;
  /// [T] the share of the heads whose replay under policy A is there that have each token in the
  /// cache after the step shown; 0 for tokens still to come. nullptr until a replay is there, and
  /// where the text is not coloured by it.
  const std::vector<float>* in_heads() const { return in_heads_.empty() ? nullptr : &in_heads_; }
  /// The replay of the selected layer under policy A (0) or B (1), with the scores of the selected
  /// head; nullptr until it is there.
  const Replay* replay(int policy) const { return of_[policy].head_now.get(); }
  /// The replay of all layers; null until it is there.
  const Replay* of_all_layers(int policy) const { return of_[policy].all_now.get(); }
  /// Why there is no replay; empty without an error.
  std::string error(int policy) const { return of_[policy].head.error(); }
  /// The selected head in it.
  const HeadReplay* head(int policy) const { return head_in(replay(policy)); }
  /// The same or, until that is there, the last one of this head.
  std::shared_ptr<const Replay> latest(int policy) const;
  /// The measures of the selected head at the step shown, under policy A (0) or B (1); nullptr
  /// until they are there.
  std::shared_ptr<const StepRecord> measured(int policy) const {
    return of_[policy].measured.current();
  }
  /// The policy's change in the whole model for later queries: the answer's, else the question's,
  /// else a sample of all; nullptr until it is known.
  std::shared_ptr<const WholeModel> whole(int policy) const { return of_[policy].whole.value(); }
  /// The fate of every token under policy A; nullptr until it is known.
  const StepTokens* tokens_a() const { return tokens_of(0); }
  /// The same under policy B; also nullptr if policy B is off.
  const StepTokens* tokens_b() const { return tokens_of(1); }

 private:
  struct HeadKey {
    figure::ReplayKey replay;
    int layer = -1, head = -1, step = -1;
    bool operator==(const HeadKey&) const = default;
  };
  /// The results of one policy. `head` is one layer alone and arrives first.
  struct OfPolicy {
    job::Computed<Replay, figure::ReplayKey> head, all;
    job::Computed<StepRecord, HeadKey> measured;         // of `head`
    job::Computed<WholeModel, figure::ReplayKey> whole;  // of `all`
    std::shared_ptr<const Replay> head_now, all_now;     // of this frame; nullptr: none
    StepTokens tokens;
    std::shared_ptr<const Replay> tokens_of;  // what these were made of
    int tokens_step = -1, tokens_head = -1;
  };
  const StepTokens* tokens_of(int policy) const;
  const HeadReplay* head_in(const Replay* replay) const;
  void request_replays(OfPolicy& of, const PolicySpec& policy);
  void request_measures(OfPolicy& of, int step);
  void request_whole(OfPolicy& of);
  void follow_policy(int which, int step);
  void follow_tokens(int which, int step);
  void follow_in_heads(int step);

  const WorkspaceState& state_;
  Results& results_;
  std::string trace_key_;
  std::vector<Block> blocks_;
  bool wait_ = false;  // for a replay
  OfPolicy of_[2];     // A, B
  std::vector<float> in_heads_;
  std::shared_ptr<const Replay> in_heads_of_;  // what these were made of
  int in_heads_step_ = -1;
  job::JobQueue measuring_;  // last: its jobs end first
};

}  // namespace kvloupe::window
