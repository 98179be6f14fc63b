#include "app/window/widgets/rich_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr float kLineHeight = 1.45F;       // of the font's size
constexpr float kParagraph = 0.6F;         // between paragraphs, of a line
constexpr float kItem = 0.25F;             // between items of a list
constexpr float kIndent = 20.0F;           // of a list's items, in units
constexpr std::string_view kToCome = "…";  // in place of a number
constexpr float kToComeWidth = 2.5F;       // of that place, of the font's size

/// Words that stay together on a line: no space lies between them.
using Group = std::vector<RichLayout::Word>;

class Layouter {
 public:
  Layouter(const Fonts& fonts, float width, bool small) : fonts_(fonts), small_(small) {
    layout_.width = width;
    const ImFont& text = small ? *fonts.secondary : *fonts.text;
    line_ = std::floor(text.FontSize * kLineHeight);
    size_ = text.FontSize;
  }

  RichLayout finish(const lesson::RichText& text) && {
    const lesson::Block* before = nullptr;
    for (const lesson::Block& block : text) {
      if (before) {
        const bool item = block.kind != lesson::BlockKind::paragraph && block.kind == before->kind;
        y_ += std::floor(line_ * (item ? kItem : kParagraph));
      }
      add_block(block);
      before = &block;
    }
    layout_.height = y_;
    return std::move(layout_);
  }

 private:
  void add_block(const lesson::Block& block) {
    indent_ = 0.0F;
    if (block.kind != lesson::BlockKind::paragraph) {
      indent_ = std::floor(kIndent * fonts_.scale());
      RichLayout::Word mark;
      mark.text =
          block.kind == lesson::BlockKind::bullet ? "•" : std::to_string(block.number) + ".";
      measure(mark, small_ ? fonts_.secondary : fonts_.text);
      mark.at = {std::max(0.0F, indent_ - mark.width - std::floor(6.0F * fonts_.scale())), y_};
      layout_.words.push_back(std::move(mark));
    }
    x_ = indent_;
    bool space = false;  // before the next word
    Group group;
    float gap = 0.0F;  // before the group
    for (const lesson::Run& run : block.runs) {
      for_each_piece(run, [&](std::string_view piece, bool is_space) {
        if (is_space) {
          space = true;
          return;
        }
        RichLayout::Word word;
        word.text = std::string(piece);
        word.code = run.code;
        word.link = run.link;
        word.pending = run.slot.has_value();
        measure(word, font_of(run));
        if (word.pending) word.width = std::max(word.width, std::floor(size_ * kToComeWidth));
        if (space || group.empty()) {
          place(group, gap);
          gap = space ? space_width(run) : 0.0F;
          space = false;
        }
        group.push_back(std::move(word));
      });
    }
    place(group, gap);
    y_ += line_;
  }

  template <class Take>
  static void for_each_piece(const lesson::Run& run, const Take& take) {
    if (run.slot) {
      take(kToCome, false);
      return;
    }
    const std::string_view text = run.text;
    // Only the plain space parts words: a no-break space keeps "41 %" together.
    for (std::size_t at = 0; at < text.size();) {
      const bool is_space = text[at] == ' ' || text[at] == '\n' || text[at] == '\t';
      std::size_t end = at;
      while (end < text.size() &&
             (text[end] == ' ' || text[end] == '\n' || text[end] == '\t') == is_space) {
        ++end;
      }
      take(text.substr(at, end - at), is_space);
      at = end;
    }
  }

  const ImFont* font_of(const lesson::Run& run) const {
    if (run.code) return fonts_.mono;
    if (run.bold) return fonts_.heading;
    if (run.italic) return fonts_.italic;
    return small_ ? fonts_.secondary : fonts_.text;
  }
  /// Bold, italic and code come in one size each and are drawn in the text's.
  void measure(RichLayout::Word& word, const ImFont* font) const {
    word.font = font;
    word.size = font == fonts_.mono ? std::floor(size_ * 0.93F) : size_;
    word.width = font->CalcTextSizeA(word.size, 1e6F, 0.0F, word.text.c_str()).x;
  }
  float space_width(const lesson::Run& run) const {
    return font_of(run)->CalcTextSizeA(size_, 1e6F, 0.0F, " ").x;
  }

  void place(Group& group, float gap) {
    if (group.empty()) return;
    float width = 0.0F;
    for (const RichLayout::Word& word : group) width += word.width;
    if (x_ > indent_ && x_ + gap + width > layout_.width) {
      x_ = indent_;
      y_ += line_;
      gap = 0.0F;
    }
    x_ += gap;
    for (RichLayout::Word& word : group) {
      break_into_lines(word);
      word.at = {x_, y_ + std::floor((line_ - word.size) / 2)};
      x_ += word.width;
      layout_.words.push_back(std::move(word));
    }
    group.clear();
  }

  /// Cuts a word wider than a line (a path, a spec) where the line ends. The rest stays in `word`.
  void break_into_lines(RichLayout::Word& word) {
    while (x_ + word.width > layout_.width && word.text.size() > 1) {
      const char* begin = word.text.c_str();
      const char* rest = nullptr;
      word.font->CalcTextSizeA(word.size, std::max(1.0F, layout_.width - x_), 0.0F, begin, nullptr,
                               &rest);
      auto fits = static_cast<std::size_t>(rest - begin);
      if (fits >= word.text.size()) return;
      if (fits == 0 && x_ > indent_) {
        x_ = indent_;
        y_ += line_;
        continue;
      }
      if (fits == 0) {  // not even one character: let it stand out
        fits = 1;
        while (fits < word.text.size() &&
               (static_cast<unsigned char>(begin[fits]) & 0xC0U) == 0x80U)
          ++fits;
        if (fits >= word.text.size()) return;
      }
      RichLayout::Word head = word;
      head.text = word.text.substr(0, fits);
      measure(head, word.font);
      head.at = {x_, y_ + std::floor((line_ - word.size) / 2)};
      layout_.words.push_back(std::move(head));
      word.text.erase(0, fits);
      measure(word, word.font);
      x_ = indent_;
      y_ += line_;
    }
  }

  const Fonts& fonts_;
  bool small_;
  RichLayout layout_;
  float line_ = 0.0F, size_ = 0.0F;
  float indent_ = 0.0F, x_ = 0.0F, y_ = 0.0F;
};

}  // namespace

RichLayout lay_out(const lesson::RichText& text, const Fonts& fonts, float width, bool small) {
  return Layouter(fonts, std::max(1.0F, width), small).finish(text);
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
