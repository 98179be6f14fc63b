#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/replay/replay.h"
#include "app/session/head_grid.h"
#include "app/session/state.h"
#include "app/window/state/results.h"
#include "app/window/state/step_measures.h"
#include "app/window/state/step_tokens.h"

namespace kvloupe::window {

/// What is known for the state in this frame: the replays of the selected head, the steps, the
/// values of the layers × heads grid, the fates of the tokens. While something newer is computed,
/// what was known before stays where it belongs to the same trace.
class ShownResults {
 public:
  /// Both outlive this. `wake` ends the window's sleep; called from worker threads.
  ShownResults(const WorkspaceState& state, Results& results, std::function<void()> wake);

  /// Call once per frame, when a trace is open and the state is in its range.
  void follow();
  /// Whether what follow() has seen is of the open trace.
  bool is_of_open_trace() const { return trace_key_ == results_.trace_key(); }
  /// Whether a number that is shown is still to come.
  bool waiting() const { return measures_wait_ || measures_.computing(); }

  /// The steps of the replay; empty without a trace.
  const std::vector<Block>& blocks() const { return blocks_; }
  int step_count() const { return static_cast<int>(blocks_.size()); }
  /// The step shown: the selected one, else the last of the prompt; 0 without a trace.
  int step() const;

  const GridValues& grid() const { return grid_; }
  /// In how many heads a token is in the cache after the step shown, under policy A, of how many
  /// whose replay is there.
  std::pair<int, int> heads_keeping(int token) const;
  /// [T] the share of the heads whose replay under policy A is there that have each token in the
  /// cache after the step shown; 0 for tokens still to come. nullptr until a replay is there, and
  /// where the text is not coloured by it.
  const std::vector<float>* in_heads() const { return in_heads_.empty() ? nullptr : &in_heads_; }
  /// What became of the followed tokens in a head under policy A; nothing until that is known.
  std::optional<TokenFate> followed_fate(int layer, int head) const;
  /// The results of the selected head, as far as they are there; else nullptr.
  const Replay* replay_a() const { return focus_a_.get(); }
  const HeadReplay* head_a() const;
  const HeadReplay* head_b() const;
  /// What is measured of the selected head at the step shown, under policy A (0) or B (1); nullptr
  /// until it is there.
  std::shared_ptr<const StepRecord> measured(int policy) const { return measures_.head(policy); }
  /// What the policy changes in the whole model for later queries; nullptr until it is known.
  std::shared_ptr<const WholeModel> whole(int policy) const { return measures_.whole(policy); }
  /// What has become of every token under policy A; nullptr until that is known.
  const StepTokens* tokens_a() const { return tokens_of(0); }
  /// The same under policy B; nullptr, too, where that is off.
  const StepTokens* tokens_b() const { return tokens_of(1); }

 private:
  const StepTokens* tokens_of(int policy) const;
  void follow_grid(int step);
  void follow_measured_grid(const Measure& measure, int step);
  void follow_whole(const PolicyResults& policy, int which);
  void follow_head_measures(const PolicyResults& policy, int which, int step);
  void follow_tokens(const PolicyResults& policy, int which, int step);
  void follow_in_heads(int step);

  const WorkspaceState& state_;
  Results& results_;
  StepMeasures measures_;
  std::string trace_key_;
  std::vector<Block> blocks_;
  GridValues grid_;
  /// What a grid that needs no measure is made of.
  struct GridKey {
    GridSubject subject;
    ReplayKey a, b;
    std::size_t heads_a = 0, heads_b = 0;  // so far
    bool b_on = false, sinks = false;
    std::size_t roles = 0;  // heads whose roles or effective tokens are known
    std::vector<int> followed;
    bool operator==(const GridKey&) const = default;
  };
  GridKey grid_key_;
  GridSubject grid_of_;                              // what the grid shows
  std::shared_ptr<const GridValues> measured_grid_;  // what the grid was made of
  bool measures_wait_ = false;                       // for a replay
  StepTokens step_tokens_[2];                        // under A, under B
  struct TokensKey {
    ReplayKey replay;
    int step = -1;
    std::size_t heads = 0;
    bool operator==(const TokensKey&) const = default;
  };
  TokensKey step_tokens_key_[2];
  TokensKey in_heads_key_;
  std::vector<float> in_heads_;
  std::shared_ptr<const Replay> focus_a_, focus_b_, all_a_, all_b_;  // of this frame
};

}  // namespace kvloupe::window
