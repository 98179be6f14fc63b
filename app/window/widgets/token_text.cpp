#include "app/window/widgets/token_text.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/plot/pattern.h"
#include "app/plot/printable.h"
#include "app/window/widgets/shaped_text.h"

namespace kvloupe::window {

namespace {
constexpr float kLineHeight = 1.6F;

bool is_there(const StepTokens& tokens, std::size_t token) {
  return figure::is_kept(tokens.states[token]);
}

/// Kept by A only, by B only, by both, by neither.
ImU32 difference(const TokenText::Input& in, std::size_t token) {
  const bool a = is_there(*in.tokens, token);
  const bool b = token < in.other->states.size() && is_there(*in.other, token);
  if (a && b) return faded(in.colours.secondary, 0.28F);
  if (a || b) return faded(a ? in.colours.retained : in.colours.evicted, 0.36F);
  return 0;
}

/// A pattern over a token's ground. The grid starts at the text's corner, so that it scrolls along.
void draw_pattern(ImDrawList& list, figure::Pattern pattern, ImU32 colour, ImVec2 corner,
                  ImVec2 low, ImVec2 high, float scale) {
  constexpr float kSpacing = 4.0F;  // pixels
  const double spacing = kSpacing * scale;
  const figure::Rect rect{low.x - corner.x, low.y - corner.y, high.x - low.x, high.y - low.y};
  const auto pixel = [&](figure::Point at) {
    return ImVec2{corner.x + static_cast<float>(at.x), corner.y + static_cast<float>(at.y)};
  };
  if (pattern == figure::Pattern::dots) {
    figure::pattern_dots(rect, spacing, [&](figure::Point at) {
      list.AddCircleFilled(pixel(at), 0.9F * scale, colour, 6);
    });
  } else {
    figure::pattern_lines(pattern, rect, spacing, [&](figure::Point from, figure::Point to) {
      list.AddLine(pixel(from), pixel(to), colour, std::max(1.0F, 0.8F * scale));
    });
  }
}

/// The pattern of a token's fate, or of who keeps it; and its colour.
std::pair<figure::Pattern, ImU32> pattern_of(const TokenText::Input& in, std::size_t token) {
  using figure::TokenState;
  if (!in.patterns || !in.tokens) return {figure::Pattern::none, 0};
  constexpr float kStrength = 0.5F;  // the words stay readable
  if (in.other) {
    const bool a = is_there(*in.tokens, token);
    const bool b = token < in.other->states.size() && is_there(*in.other, token);
    if (a == b) return {figure::Pattern::none, 0};
    return a ? std::pair{figure::Pattern::rising, faded(in.colours.retained, kStrength)}
             : std::pair{figure::Pattern::falling, faded(in.colours.evicted, kStrength)};
  }
  if (in.colour != TokenText::Colour::fate) return {figure::Pattern::none, 0};
  const TokenState state = in.tokens->states[token];
  const ImU32 colour = state == TokenState::protected_ ? in.colours.protection
                       : state == TokenState::merged   ? in.colours.merged
                                                       : in.colours.evicted;
  // What left before is struck.
  if (state != TokenState::protected_ && !in.tokens->leaving[token])
    return {figure::Pattern::none, 0};
  return {figure::state_pattern(state), faded(colour, kStrength)};
}

ImU32 background(const TokenText::Input& in, std::size_t token) {
  using figure::TokenState;
  if (!in.tokens) return 0;
  if (in.other) return difference(in, token);
  if (in.colour == TokenText::Colour::heads) {
    if (!in.in_heads || token >= in.in_heads->size()) return 0;
    const float share = (*in.in_heads)[token];
    return share > 0.0F ? faded(in.colours.retained, 0.05F + 0.45F * share) : 0;
  }
  if (in.colour == TokenText::Colour::score) {
    const int rank = in.tokens->ranks[token];
    if (rank == 0 || in.tokens->scored < 2) return 0;
    const float share =
        1.0F - static_cast<float>(rank - 1) / static_cast<float>(in.tokens->scored - 1);
    return faded(in.colours.retained, 0.04F + 0.32F * share * share);
  }
  switch (in.tokens->states[token]) {
    case TokenState::retained:
      return faded(in.colours.retained, 0.16F);
    case TokenState::protected_:
      return faded(in.colours.protection, 0.16F);
    case TokenState::evicted:
      return in.tokens->leaving[token] ? faded(in.colours.evicted, 0.24F) : 0;
    case TokenState::merged:
      return in.tokens->leaving[token] ? faded(in.colours.merged, 0.3F) : 0;
    case TokenState::ahead:
    case TokenState::beyond_window:
      break;
  }
  return 0;
}
}  // namespace

void TokenText::lay_out(const Input& in, float width) {
  shown_.resize(static_cast<std::size_t>(in.count));
  places_.resize(shown_.size());
  first_of_line_.assign(1, 0);
  const float size = in.fonts.mono->FontSize;
  float x = 0.0F;
  std::size_t word = 0;  // where the last word of this line starts
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    shown_[i] = i < in.text.size() ? figure::printable(in.text[i]) : std::to_string(i) + " ";
    const float advance = line_width(in.fonts, in.fonts.mono, size, shown_[i]);
    const auto start = static_cast<std::size_t>(first_of_line_.back());
    if (shown_[i].front() == ' ') word = i;
    if (i > start && x + advance > width) {
      // The whole word moves to the next line, unless it fills this one.
      const std::size_t first = word > start ? word : i;
      first_of_line_.push_back(static_cast<int>(first));
      x = 0.0F;
      for (std::size_t j = first; j < i; ++j) {
        places_[j].x = x;
        places_[j].line = static_cast<int>(first_of_line_.size()) - 1;
        x += places_[j].width;
      }
    }
    places_[i] = {x, advance, static_cast<int>(first_of_line_.size()) - 1};
    x += advance;
    if (shown_[i].ends_with("↵") && i + 1 < shown_.size()) {
      first_of_line_.push_back(static_cast<int>(i) + 1);
      word = i + 1;
      x = 0.0F;
    }
  }
  first_of_line_.push_back(in.count);
}

TokenText::Output TokenText::draw(const std::string& trace_key, const Input& in) {
  Output out;
  const float width = ImGui::GetContentRegionAvail().x;
  const std::string key =
      trace_key + "|" + std::to_string(width) + "|" + std::to_string(in.fonts.mono->FontSize);
  if (key != key_) {
    lay_out(in, width);
    key_ = key;
    followed_ = -1;
  }
  const float size = in.fonts.mono->FontSize;
  const float line = std::floor(size * kLineHeight);
  const int lines = static_cast<int>(first_of_line_.size()) - 1;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImGui::InvisibleButton("##text", {width, std::max(line, line * static_cast<float>(lines))});
  const bool over = ImGui::IsItemHovered();
  const ImVec2 mouse = ImGui::GetIO().MousePos;

  if (in.follow >= 0 && in.follow < in.count && in.follow != followed_) {
    followed_ = in.follow;
    const float y = static_cast<float>(places_[static_cast<std::size_t>(in.follow)].line) * line;
    const float height = ImGui::GetWindowHeight();
    if (y < ImGui::GetScrollY() || y + line > ImGui::GetScrollY() + height) {
      ImGui::SetScrollY(std::max(0.0F, std::floor((y - height / 2) / line) * line));
    }
  }
  const int first =
      std::clamp(static_cast<int>(ImGui::GetScrollY() / line), 0, std::max(0, lines - 1));
  const int last = std::min(lines, first + static_cast<int>(ImGui::GetWindowHeight() / line) + 2);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float space = in.fonts.mono->GetCharAdvance(' ');
  for (int row = first; row < last; ++row) {
    const float top = corner.y + static_cast<float>(row) * line;
    const float baseline_box = std::floor((line - size) / 2);
    for (int i = first_of_line_[static_cast<std::size_t>(row)];
         i < first_of_line_[static_cast<std::size_t>(row) + 1]; ++i) {
      const auto token = static_cast<std::size_t>(i);
      const Placed& place = places_[token];
      const ImVec2 low{corner.x + place.x, top + 1};
      const ImVec2 high{corner.x + place.x + place.width, top + line - 1};
      if (const ImU32 fill = background(in, token)) list.AddRectFilled(low, high, fill);
      if (const auto [pattern, colour] = pattern_of(in, token); pattern != figure::Pattern::none)
        draw_pattern(list, pattern, colour, corner, low, high, in.fonts.scale());
      ImU32 ink = in.colours.ink;
      const auto state = in.tokens ? in.tokens->states[token] : figure::TokenState::retained;
      const bool leaving = in.tokens && in.tokens->leaving[token];
      const bool merged = state == figure::TokenState::merged;
      const bool gone = !in.other && (state == figure::TokenState::evicted || (merged && !leaving));
      const bool nobody_has = in.other && in.tokens && difference(in, token) == 0;
      const bool some_have =
          in.colour == Colour::heads && in.in_heads && (*in.in_heads)[token] > 0.0F;
      const bool faint =
          in.colour == Colour::heads ? !some_have : !figure::is_kept(state) && !leaving;
      if (nobody_has || (!in.other && faint)) {
        ink = in.colours.secondary;
      }
      if (in.other && in.tokens && is_there(*in.tokens, token) != is_there(*in.other, token)) {
        // A second cue for print in grey: above what only A keeps, below what only B keeps.
        const bool a = is_there(*in.tokens, token);
        const float y = a ? low.y + 0.5F : high.y - 0.5F;
        list.AddLine({low.x, y}, {high.x, y}, a ? in.colours.retained : in.colours.evicted, 2.0F);
      }
      if (gone && in.colour == Colour::fate) {
        // Under the letters and not through the spaces, so that words stay readable.
        const std::size_t letters = shown_[token].find_first_not_of(' ');
        const float from =
            letters == std::string::npos ? place.width : static_cast<float>(letters) * space;
        const float y = std::floor(top + line / 2) + 0.5F;
        list.AddLine({low.x + from, y}, {high.x, y}, faded(in.colours.evicted, 0.35F));
      }
      draw_line(list, in.fonts, in.fonts.mono, size, {low.x, top + baseline_box}, ink,
                shown_[token]);
      if (in.colour == Colour::fate && !in.other && state == figure::TokenState::protected_) {
        list.AddLine({low.x, high.y - 0.5F}, {high.x, high.y - 0.5F}, in.colours.protection);
      }
      if (i == in.selected) list.AddRect(low, high, in.colours.ink, 0, 0, 1.0F);
      if (i == in.hovered) list.AddRect(low, high, in.colours.selection, 0, 0, 2.0F);
      if (over && mouse.x >= low.x && mouse.x < high.x && mouse.y >= top && mouse.y < top + line) {
        out.hovered = i;
      }
    }
  }
  if (out.hovered >= 0 && ImGui::IsMouseClicked(0)) out.clicked = out.hovered;
  return out;
}

}  // namespace kvloupe::window
