#include "app/window/widgets/shaped_text.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/scene/imgui_backend.h"
#include "app/scene/text_shaper.h"

namespace kvloupe::window {

namespace {

bool shaped(const Fonts& fonts, const std::string& text) {
  return fonts.metrics != nullptr && fonts.backend != nullptr && figure::needs_shaping(text);
}

figure::Font figure_font(const Fonts& fonts, const ImFont* font) {
  if (font == fonts.mono) return figure::Font::mono;
  if (font == fonts.heading || font == fonts.title) return figure::Font::bold;
  return font == fonts.italic ? figure::Font::italic : figure::Font::regular;
}

/// Pixels to the em: ImGui's sizes are of a line.
double em_of(const Fonts& fonts, const ImFont* font, float size) {
  return static_cast<double>(size) / fonts.metrics->line_height(figure_font(fonts, font));
}

/// Pieces that fit a width, parted at spaces, each line break being one, too.
std::vector<std::string> wrapped(const Fonts& fonts, const ImFont* font, float size,
                                 const std::string& text, float width) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size() - 1) + 1;
    const std::string word = text.substr(at, end - at);
    const std::string longer = lines.back() + word;
    if (!lines.back().empty() && width > 0 && line_width(fonts, font, size, longer) > width) {
      lines.push_back(word);
    } else {
      lines.back() = longer;
    }
    if (word.back() == '\n') {
      lines.back().pop_back();
      lines.emplace_back();
    }
    at = end;
  }
  return lines;
}

}  // namespace

float line_width(const Fonts& fonts, const ImFont* font, float size, const std::string& text) {
  if (!shaped(fonts, text)) return font->CalcTextSizeA(size, 1e6F, 0.0F, text.c_str()).x;
  return static_cast<float>(
      fonts.metrics->width(text, figure_font(fonts, font), em_of(fonts, font, size)));
}

void draw_line(ImDrawList& list, const Fonts& fonts, const ImFont* font, float size, ImVec2 at,
               ImU32 ink, const std::string& text) {
  if (!shaped(fonts, text)) {
    list.AddText(font, size, at, ink, text.c_str());
    return;
  }
  const float baseline = std::floor(at.y) + std::round(font->Ascent * size / font->FontSize);
  fonts.backend->draw_text(list, text, figure_font(fonts, font), std::floor(at.x), baseline,
                           em_of(fonts, font, size), ink);
}

void show_text(const Fonts& fonts, const std::string& text) {
  if (!shaped(fonts, text)) {
    ImGui::TextUnformatted(text.c_str());
    return;
  }
  const ImFont* font = ImGui::GetFont();
  const float size = ImGui::GetFontSize();
  const float wrap = ImGui::GetCurrentWindow()->DC.TextWrapPos;
  ImVec2 corner = ImGui::GetCursorScreenPos();
  corner.y += ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset;
  const float room =
      wrap < 0 ? 0.0F : ImGui::CalcWrapWidthForPos(corner, wrap);  // below 0: no wrapping
  const std::vector<std::string> lines = wrapped(fonts, font, size, text, room);
  float width = 0.0F;
  for (const std::string& line : lines)
    width = std::max(width, line_width(fonts, font, size, line));
  ImGui::SetCursorScreenPos(corner);
  ImGui::Dummy({width, size * static_cast<float>(lines.size())});
  ImVec2 at = corner;
  for (const std::string& line : lines) {
    draw_line(*ImGui::GetWindowDrawList(), fonts, font, size, at, ImGui::GetColorU32(ImGuiCol_Text),
              line);
    at.y += size;
  }
}

}  // namespace kvloupe::window
