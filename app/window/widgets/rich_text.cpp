#include "app/window/widgets/rich_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/document/set_text.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr float kLineHeight = 1.45F;  // of the font's size
constexpr float kParagraph = 0.6F;    // between paragraphs, of a line
constexpr float kItem = 0.25F;        // between items of a list
constexpr float kIndent = 20.0F;      // of a list's items, in units
constexpr float kToComeWidth = 2.5F;  // of a number to come, of the font's size

}  // namespace

RichLayout lay_out(const lesson::RichText& text, const Fonts& fonts, float width, bool small) {
  using figure::document::Run;
  const ImFont* const regular = small ? fonts.secondary : fonts.text;
  const float size = regular->FontSize, line = std::floor(size * kLineHeight);
  const auto font_of = [&](const Run& run) -> const ImFont* {
    if (run.code) return fonts.mono;
    if (run.bold) return fonts.heading;
    return run.italic ? fonts.italic : regular;
  };
  /// Bold, italic and code come in one size each and are drawn in the text's.
  const auto word_of = [&](const Run& run, const std::string& words) {
    RichLayout::Word word{.text = words,
                          .font = font_of(run),
                          .size = size,
                          .code = run.code,
                          .pending = run.pending,
                          .link = run.link};
    if (run.code) word.size = std::floor(size * 0.93F);
    word.width = word.font->CalcTextSizeA(word.size, 1e6F, 0.0F, words.c_str()).x;
    if (run.pending) word.width = std::max(word.width, std::floor(size * kToComeWidth));
    return word;
  };
  const auto measure = [&](const Run& run, const std::string& words) {
    return static_cast<double>(word_of(run, words).width);
  };
  RichLayout layout;
  layout.width = std::max(1.0F, width);
  float& y = layout.height;
  const auto blocks = lesson::blocks_of(text);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const bool item = blocks[i].kind != lesson::BlockKind::paragraph;
    const bool goes_on = item && i > 0 && blocks[i].kind == blocks[i - 1].kind;
    if (i > 0) y += std::floor(line * (goes_on ? kItem : kParagraph));
    const float indent = item ? std::floor(kIndent * fonts.scale()) : 0.0F;
    if (item) {
      const bool bullet = blocks[i].kind == lesson::BlockKind::bullet;
      RichLayout::Word mark = word_of({}, bullet ? "•" : std::to_string(blocks[i].number) + ".");
      mark.at = {std::max(0.0F, indent - mark.width - std::floor(6.0F * fonts.scale())), y};
      layout.words.push_back(std::move(mark));
    }
    for (const auto& pieces : lines_of(blocks[i], layout.width - indent, measure)) {
      float x = indent;
      for (const figure::document::Piece& piece : pieces) {
        RichLayout::Word word = word_of(*piece.style, piece.text);
        word.at = {x, y + std::floor((line - word.size) / 2)};
        x += word.width;
        layout.words.push_back(std::move(word));
      }
      y += line;
    }
  }
  return layout;
}

std::string draw_rich_text(const RichLayout& layout, const Fonts& fonts,
                           const WindowColours& colours, ImU32 ink) {
  std::string clicked;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImGui::Dummy({layout.width, layout.height});
  for (const RichLayout::Word& word : layout.words) {
    const ImVec2 low{corner.x + word.at.x, corner.y + word.at.y};
    const ImVec2 high{low.x + word.width, low.y + word.size};
    if (!ImGui::IsRectVisible(low, high)) continue;
    if (word.code) {
      const float margin = std::floor(2.0F * fonts.scale());
      list.AddRectFilled({low.x - margin, low.y - margin / 2}, {high.x + margin, high.y + margin},
                         colours.control, 2.0F * fonts.scale());
    }
    ImU32 colour = word.pending ? colours.secondary : ink;
    if (!word.link.empty()) {
      colour = colours.retained;
      list.AddLine({low.x, high.y + 1}, {high.x, high.y + 1}, faded(colour, 0.5F));
      if (ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(low, high)) {
        ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
        ImGui::SetTooltip("%s\nClick to copy this address", word.link.c_str());
        if (ImGui::IsMouseClicked(0)) clicked = word.link;
      }
    }
    list.AddText(word.font, word.size, low, colour, word.text.c_str());
  }
  return clicked;
}

}  // namespace kvloupe::window
