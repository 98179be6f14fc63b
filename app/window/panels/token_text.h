#pragma once

#include <imgui.h>

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/trace/given_tokens.h"
#include "analysis/trace/segments.h"
#include "app/session/state.h"
#include "app/window/state/step_tokens.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/text_search.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// The sequence as flowing text, coloured by fate or score, in as many columns as the width has
/// room for: the text goes on at the top of the next. A line of the text ends where it ends in the
/// prompt. Segments begin with their name. Lays the text out once, draws only what is visible.
class TokenText {
 public:
  enum class Colour { fate, score, heads };
  struct Input {
    const Fonts& fonts;
    const WindowColours& colours;
    const TokenTable& table;   // without texts: indices are shown
    int count = 0;             // T
    int prompt = 0;            // tokens from this one on follow the prompt
    const GivenTokens& given;  // those of them that the model did not choose
    const StepTokens* tokens = nullptr;
    Colour colour = Colour::fate;
    const std::vector<float>* in_heads = nullptr;  // [T] share of the heads that have the token
    bool patterns = false;                         // beside the colours of fates
    const StepTokens* other = nullptr;             // under policy B: shows who keeps what instead
    int selected = -1;
    int hovered = -1;
    TokenRange range = {};                       // chosen for all views
    const std::vector<int>* followed = nullptr;  // ascending: marked
    const TextSearch* search = nullptr;          // its hits are marked
    int at_step = -1;                            // the first token of the step shown
  };
  struct Output {
    int hovered = -1;
    int clicked = -1;
    std::string segment;  // whose name the pointer is on; empty: none
  };
  /// Fills the current ImGui window's content region. Scrolls to the last choice: a hit of the
  /// search, followed tokens, a range, a token or a step.
  Output draw(const std::string& trace_key, const Input& input);

  /// [T] the tokens as drawn, for the search.
  const std::vector<std::string>& shown(const std::string& trace_key, const TokenTable& table,
                                        int count);

  /// The place, in pixels, where a token's first piece was drawn last. Without size: out of sight.
  struct Place {
    float x = 0.0F, y = 0.0F, width = 0.0F, height = 0.0F;
    bool visible() const { return height > 0.0F; }
  };
  Place place_of(int token) const;
  int columns() const { return columns_; }
  /// The name that stands before a token; empty: none.
  const std::string& name_before(int token) const {
    return names_[static_cast<std::size_t>(token)];
  }
  /// How often the text was laid out.
  int layouts() const { return layouts_; }

 private:
  /// A token, or the part of it up to a line break.
  struct Piece {
    int token = 0;
    int line = 0;
    float x = 0.0F;                  // from the column's left edge
    float lead = 0.0F;               // of which the name of a segment takes so much
    float width = 0.0F;              // of the text
    std::size_t begin = 0, end = 0;  // bytes of shown_[token]
    bool whole() const { return begin == 0; }
  };
  /// The target that the text scrolled to last.
  struct Seen {
    int selected = -1;
    TokenRange range;
    int followed = -1, followed_last = -1;  // the first and the last of them
    int step = -1;
    int hit = 0;  // TextSearch::turn
    bool operator==(const Seen&) const = default;
  };
  struct Frame;  // the drawing of one frame

  void make_shown(const std::string& trace_key, const TokenTable& table, int count);
  void make_pieces(const Input& input);
  void lay_out(const Input& input, float width);
  std::string name_at(const Input& input, int token) const;
  /// The tokens to scroll into sight in this frame; empty: none.
  TokenRange to_show(const Input& input);
  int line_of(int token) const;
  void draw_piece(const Frame& frame, const Piece& piece, ImVec2 corner, Output& out) const;
  void draw_hits(const Frame& frame, const Piece& piece, ImVec2 low, ImVec2 high) const;
  void draw_gutter(const Frame& frame, int line, ImVec2 corner) const;

  std::string shown_key_;
  std::vector<std::string> shown_;  // [T] as drawn
  std::string key_;                 // of the layout
  std::string trace_;               // of the layout
  std::vector<Piece> pieces_;
  std::vector<std::size_t> first_piece_;          // [T + 1] of each token
  std::vector<std::size_t> first_piece_of_line_;  // then the number of pieces
  std::vector<std::string> names_;                // [T] of the segment that begins; or empty
  int columns_ = 1;
  int layouts_ = 0;
  Seen seen_;
  int top_token_ = 0;  // the first in sight
  // As drawn last.
  ImVec2 corner_{};
  float column_pitch_ = 0.0F, line_height_ = 0.0F;
  int first_line_ = 0, rows_ = 0;
};

}  // namespace kvloupe::window
