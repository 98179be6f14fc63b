#pragma once

#include <string>
#include <vector>

#include "app/session/state.h"
#include "app/window/state/step_tokens.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// The sequence as flowing text, coloured by fate or score. Draws only the visible lines.
class TokenText {
 public:
  enum class Colour { fate, score, heads };
  struct Input {
    const Fonts& fonts;
    const WindowColours& colours;
    const std::vector<std::string>& text;  // [T]; may be empty: indices are shown
    int count = 0;                         // T
    const StepTokens* tokens = nullptr;
    Colour colour = Colour::fate;
    const std::vector<float>* in_heads = nullptr;  // [T] share of the heads that have the token
    bool patterns = false;                         // beside the colours of fates
    const StepTokens* other = nullptr;             // under policy B: shows who keeps what instead
    int selected = -1;
    int hovered = -1;
    int follow = -1;  // a token to keep visible when it changes
  };
  struct Output {
    int hovered = -1;
    int clicked = -1;
  };
  /// Fills the current ImGui window's content region.
  Output draw(const std::string& trace_key, const Input& input);

 private:
  struct Placed {
    float x = 0.0F;
    float width = 0.0F;
    int line = 0;
  };
  void lay_out(const Input& input, float width);

  std::string key_;
  std::vector<std::string> shown_;  // [T] as drawn
  std::vector<Placed> places_;      // [T]
  std::vector<int> first_of_line_;  // then T
  int followed_ = -1;
};

}  // namespace kvloupe::window
