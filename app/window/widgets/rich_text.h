#pragma once
// The text of a lesson on the screen: styled words, wrapped.

#include <imgui.h>

#include <string>
#include <vector>

#include "app/lesson/text.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// A text laid out at a width, each word or stretch of words in one style. Numbers that are not
/// known yet have a reserved place.
struct RichLayout {
  struct Word {
    std::string text;
    const ImFont* font = nullptr;
    float size = 0.0F;  // of the font
    ImVec2 at{};        // top left, from the text's
    float width = 0.0F;
    bool code = false;
    bool pending = false;  // a number to come
    std::string link;      // empty: none
  };
  std::vector<Word> words;
  float width = 0.0F;
  float height = 0.0F;
};

/// Lays `text` out in Inter, `code` in JetBrains Mono. `small`: as secondary text.
RichLayout lay_out(const lesson::RichText& text, const Fonts& fonts, float width,
                   bool small = false);

/// Draws it at the cursor of the current ImGui window, as one item of its size. A link shows its
/// address; the address of a clicked link is returned, else an empty text.
std::string draw_rich_text(const RichLayout& layout, const Fonts& fonts,
                           const WindowColours& colours, ImU32 ink);

}  // namespace kvloupe::window
