// The line above a tile's picture: which view, its choices, a dot while something newer comes.

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/error.h"
#include "app/window/marks.h"
#include "app/window/tile.h"

namespace kvloupe::window {

namespace {
constexpr float kHeader = 32.0F;
}

float Tile::header_height(const Fonts& fonts) { return kHeader * fonts.scale(); }

float Tile::draw_title(TileState& tile, const TileContext& context, float width, bool active) {
  const Palette& colours = palette(context.state.theme);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float unit = context.fonts.scale();
  const figure::FigureInfo& current = window::info(*find_view(tile.view));
  ImGui::PushFont(context.fonts.heading);
  const float padding = ImGui::GetStyle().FramePadding.x;
  const float text = ImGui::CalcTextSize(current.title.c_str()).x;
  const float title_width = std::min(text + 2 * padding + 16 * unit, width);
  ImGui::PushStyleColor(ImGuiCol_Button, 0);
  ImGui::PushStyleColor(ImGuiCol_Text, active ? colours.ink : colours.secondary);
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, {0.0F, 0.5F});
  const bool open = ImGui::Button((current.title + "##view").c_str(), {title_width, 0});
  ImGui::PopStyleVar();
  ImGui::PopStyleColor(2);
  ImGui::PopFont();
  small_arrow({corner.x + padding + text + 10 * unit, corner.y + ImGui::GetFrameHeight() / 2}, unit,
              colours.secondary);
  help_tooltip(context.fonts, current.tooltip);
  if (open) {
    context.asks.choose_view = true;
    context.asks.at = {corner.x, corner.y + ImGui::GetFrameHeight() + 4 * unit};
  }
  return title_width;
}

namespace {

/// Width of the list of a choice's values, so that each fits.
float choice_width(const figure::ChoiceInfo& choice) {
  if (choice.kind == figure::ChoiceKind::number) return 4.0F * ImGui::GetFrameHeight();
  if (figure::is_typed(choice)) return 8.0F * ImGui::GetFrameHeight();
  float widest = 0.0F;
  for (const auto& value : choice.values) {
    widest = std::max(widest, ImGui::CalcTextSize(value.c_str()).x);
  }
  return widest + ImGui::GetFrameHeight() + 2 * ImGui::GetStyle().FramePadding.x;
}

/// What is being typed, or was typed and is no value, by choice; it stays until it is mended.
using Drafts = std::map<std::string, std::string>;

/// One line about what is wrong with a draft; empty where nothing is.
std::string fault(const figure::FigureInfo& view, const figure::ChoiceInfo& choice,
                  const std::string& text) {
  try {
    figure::check_value(view.name, choice, text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

/// A field to type in; taken with Enter or when it is left. Emptied, it has its default again.
void draw_typed_choice(TileState& tile, const figure::FigureInfo& view,
                       const figure::ChoiceInfo& choice, const Fonts& fonts, Drafts& drafts) {
  const auto draft = drafts.find(choice.name);
  std::string text =
      draft != drafts.end() ? draft->second : figure::choice(view, tile.choices, choice.name);
  const std::string wrong = draft != drafts.end() ? fault(view, choice, text) : std::string();
  const ImVec4 kWrong{0.84F, 0.37F, 0.0F, 1.0F};
  if (!wrong.empty()) ImGui::PushStyleColor(ImGuiCol_Text, kWrong);
  ImGui::SetNextItemWidth(choice_width(choice));
  if (ImGui::InputText(("##" + choice.name).c_str(), &text)) drafts[choice.name] = text;
  if (!wrong.empty()) ImGui::PopStyleColor();
  help_tooltip(fonts, wrong.empty() ? choice.tooltip : wrong);
  if (!ImGui::IsItemDeactivatedAfterEdit() || !drafts.contains(choice.name)) return;
  text = drafts[choice.name];
  if (text.find_first_not_of(' ') == std::string::npos) {
    tile.choices.erase(choice.name);
  } else if (fault(view, choice, text).empty()) {
    tile.choices[choice.name] = text;
    tile.limits.reset();
  } else {
    return;
  }
  drafts.erase(choice.name);
}

void draw_choice(TileState& tile, const figure::FigureInfo& view, const figure::ChoiceInfo& choice,
                 const Fonts& fonts, Drafts& drafts) {
  if (figure::is_typed(choice)) {
    draw_typed_choice(tile, view, choice, fonts, drafts);
    return;
  }
  const std::string value = figure::choice(view, tile.choices, choice.name);
  ImGui::SetNextItemWidth(choice_width(choice));
  if (ImGui::BeginCombo(("##" + choice.name).c_str(), value.c_str())) {
    for (const std::string& each : choice.values) {
      if (ImGui::Selectable(each.c_str(), each == value)) {
        tile.choices[choice.name] = each;
        tile.limits.reset();
      }
    }
    ImGui::EndCombo();
  } else {
    help_tooltip(fonts, choice.tooltip);
  }
}

void draw_choice_title(const figure::ChoiceInfo& choice, const Palette& colours) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(colours.secondary), "%s", choice.title.c_str());
}

/// What has no room in the header, one choice a line.
void draw_more(TileState& tile, const figure::FigureInfo& view,
               std::span<const figure::ChoiceInfo> choices, const Fonts& fonts,
               const Palette& colours, Drafts& drafts) {
  if (ImGui::Button("…")) ImGui::OpenPopup("##more");
  if (!ImGui::IsPopupOpen("##more")) {
    std::string names;
    for (const figure::ChoiceInfo& choice : choices) {
      names += (names.empty() ? "" : "\n") + choice.title + ": " +
               figure::choice(view, tile.choices, choice.name);
    }
    help_tooltip(fonts, names);
  }
  if (!ImGui::BeginPopup("##more")) return;
  float title_width = 0.0F;
  for (const figure::ChoiceInfo& choice : choices) {
    title_width = std::max(title_width, ImGui::CalcTextSize(choice.title.c_str()).x);
  }
  for (const figure::ChoiceInfo& choice : choices) {
    const float x = ImGui::GetCursorPosX();
    draw_choice_title(choice, colours);
    ImGui::SameLine(x + title_width + 2 * ImGui::GetStyle().ItemSpacing.x);
    draw_choice(tile, view, choice, fonts, drafts);
  }
  ImGui::EndPopup();
}

}  // namespace

namespace {

/// A, B or both, where a policy is looked at and there are two; returns its width in pixels.
float draw_side(TileState& tile, const figure::FigureInfo& view, const TileContext& context) {
  if (!(view.needs.policy || view.needs.comparison) || view.needs.policy_b ||
      (!context.state.policy_b_on && tile.side != PolicySide::b))
    return 0.0F;
  const Palette& colours = palette(context.state.theme);
  const char* names[] = {"A, B", "A", "B"};
  const ImU32 inks[] = {colours.ink, colours.retained, colours.evicted};
  const auto now = static_cast<std::size_t>(tile.side);
  const float width = ImGui::CalcTextSize("A, B").x + ImGui::GetFrameHeight() +
                      2 * ImGui::GetStyle().FramePadding.x;
  ImGui::SameLine();
  ImGui::SetNextItemWidth(width);
  ImGui::PushStyleColor(ImGuiCol_Text, inks[now]);
  const bool open = ImGui::BeginCombo("##side", names[now]);
  ImGui::PopStyleColor();
  if (open) {
    for (const PolicySide side : {PolicySide::both, PolicySide::a, PolicySide::b}) {
      if (ImGui::Selectable(names[static_cast<std::size_t>(side)], side == tile.side))
        tile.side = side;
    }
    ImGui::EndCombo();
  } else {
    help_tooltip(context.fonts, "Which policy this view looks at: " + context.state.policy_a +
                                    " or " + context.state.policy_b +
                                    "; both where it can show two");
  }
  return width + ImGui::GetStyle().ItemSpacing.x;
}

}  // namespace

void Tile::draw_header(TileState& tile, const TileContext& context, float width, bool active) {
  const Palette& colours = palette(context.state.theme);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float unit = context.fonts.scale();
  const float height = header_height(context.fonts);

  ImGui::SetCursorScreenPos({corner.x, corner.y + (height - ImGui::GetFrameHeight()) / 2});
  ImGui::BeginGroup();
  const float title_width = draw_title(tile, context, width, active);
  const figure::FigureInfo& view = window::info(*find_view(tile.view));

  ImGui::PushFont(context.fonts.secondary);
  const float side_width = draw_side(tile, view, context);
  const float padding = ImGui::GetStyle().FramePadding.x;
  const float spacing = ImGui::GetStyle().ItemSpacing.x;
  const bool can_reset = tile.x_range || tile.y_range || tile.limits;
  const float reset_width =
      can_reset ? ImGui::CalcTextSize("Reset").x + 2 * padding + spacing : 0.0F;
  const float more_width = ImGui::CalcTextSize("…").x + 2 * padding + spacing;
  const float dot_width = 16 * unit;
  const std::span<const figure::ChoiceInfo> choices = view.choices;
  std::vector<float> widths;
  float all = 0.0F;
  for (const figure::ChoiceInfo& choice : choices) {
    widths.push_back(ImGui::CalcTextSize(choice.title.c_str()).x + choice_width(choice) +
                     2 * spacing);
    all += widths.back();
  }
  const float room = width - title_width - side_width - reset_width - dot_width;
  std::size_t shown = choices.size();
  if (all > room) {
    shown = 0;
    float used = more_width;
    while (shown < choices.size() && used + widths[shown] <= room) used += widths[shown++];
  }
  for (const figure::ChoiceInfo& choice : choices.first(shown)) {
    ImGui::SameLine();
    draw_choice_title(choice, colours);
    ImGui::SameLine();
    draw_choice(tile, view, choice, context.fonts, drafts_);
  }
  if (shown < choices.size()) {
    ImGui::SameLine();
    draw_more(tile, view, choices.subspan(shown), context.fonts, colours, drafts_);
  }
  if (can_reset) {
    ImGui::SameLine();
    if (ImGui::Button("Reset")) {
      reset(tile);
      tile.limits.reset();
    }
    help_tooltip(context.fonts, "Whole view, the figure's own limits (0, or double-click)");
  }
  ImGui::PopFont();
  ImGui::EndGroup();
  if (waiting_for_replay_ || figure_.computing() || picture_.computing()) {
    computing_dot(context.fonts, {corner.x + width - 8 * unit, corner.y + height / 2}, colours);
  }
}

}  // namespace kvloupe::window
