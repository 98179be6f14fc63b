#pragma once

#include <imgui.h>

#include <memory>
#include <optional>
#include <string>

#include "analysis/replay/explain.h"
#include "app/figure/replay_service.h"
#include "app/job/computed.h"
#include "app/window/state/expectations.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

struct PanelContext;

/// Why a token was kept or evicted, at the place of the click: the probability that the model gave
/// it and the next tokens that it expected; the token's life under both policies, the current step
/// in one sentence, and its margin over the threshold step by step.
class TokenCard {
 public:
  void open(ImVec2 at);
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  void draw(const PanelContext& context);
  /// Under policy A and B, if they are known.
  const std::optional<TokenExplanation>& explanation(int policy) const {
    return lives_[policy].explanation;
  }

 private:
  struct Life {
    std::shared_ptr<const Replay> replay;  // that the explanation is of
    int token = -1;
    std::optional<TokenExplanation> explanation;
  };
  static void follow(Life& life, const PanelContext& context, int policy, int token);
  void draw_life(const PanelContext& context, const Life& life, const char* name, ImU32 colour,
                 float width) const;

  /// The token's fate in the other heads, and the possible actions.
  static void draw_all_heads(const PanelContext& context, int token);
  void draw_expectations(const PanelContext& context, int token, float width);

  bool open_ = false;
  ImVec2 at_{};
  Life lives_[2];
  job::Computed<Expectations> expected_;
};

/// "entered at step 0, evicted at step 3".
std::string life_text(const TokenExplanation& explanation);

}  // namespace kvloupe::window
