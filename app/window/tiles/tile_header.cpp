// The line above a tile's picture: which view, its choices, a dot while something newer comes.

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/of_study.h"
#include "app/window/state/layouts.h"
#include "app/window/tiles/tile.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace {
constexpr float kHeader = 32.0F;
}

float Tile::header_height(const Fonts& fonts) { return kHeader * fonts.scale(); }

namespace {

/// Width of a tile's title with the arrow that says that it opens a list.
float title_width(const std::string& title, const Fonts& fonts) {
  ImGui::PushFont(fonts.heading);
  const float text = ImGui::CalcTextSize(title.c_str()).x;
  ImGui::PopFont();
  return text + 2 * ImGui::GetStyle().FramePadding.x + 16 * fonts.scale();
}

/// If a pinned head stands beside the selected one: which of them this is; else empty.
std::string whose_head(const TileState& tile, const figure::FigureInfo& view,
                       const WorkspaceState& state) {
  if (pinned_tile(state) == nullptr || !needs_of(view, tile.choices).head) return {};
  if (tile.pinned) return fmt::format("Pinned {}.{}: ", tile.pinned->layer, tile.pinned->head);
  return fmt::format("Selected {}.{}: ", state.selection.layer, state.selection.head);
}

/// The view's title, with the policy of a run with which it compares a replay.
std::string title_of(const figure::FigureInfo& view, const Results& results) {
  const TracePointer other = view.needs.both_loops ? results.other_loop() : nullptr;
  if (!other) return view.title;
  const RunInfo& run = (other->run().closed_loop() ? other : results.trace())->run();
  return fmt::format("{}: {}, N = {}", view.title, run.policy, count_text(run.budget));
}
}  // namespace

void Tile::draw_title(const TileState& tile, const TileContext& context, float width, bool active) {
  const WindowColours& colours = window_colours(context.panel.state.theme);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float unit = context.panel.fonts.scale();
  const figure::FigureInfo& current = *find_view(tile.view);
  const float padding = ImGui::GetStyle().FramePadding.x;
  const std::string whose = whose_head(tile, current, context.panel.state);
  const std::string whole = whose + title_of(current, context.panel.results);
  const bool cut = width < title_width(whole, context.panel.fonts);
  constexpr double kTextSize = 15.0;
  const std::string title =
      cut ? context.panel.metrics.fit(whole, figure::Font::bold, kTextSize,
                                      std::max(0.0F, width - 2 * padding - 16 * unit) / unit)
          : whole;
  ImGui::PushFont(context.panel.fonts.heading);
  const float text = ImGui::CalcTextSize(title.c_str()).x;
  ImGui::PushStyleColor(ImGuiCol_Button, 0);
  ImGui::PushStyleColor(ImGuiCol_Text, active ? colours.ink : colours.secondary);
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, {0.0F, 0.5F});
  const bool open = ImGui::Button((title + "###view").c_str(), {width, 0});
  ImGui::PopStyleVar();
  ImGui::PopStyleColor(2);
  ImGui::PopFont();
  small_arrow({corner.x + padding + text + 10 * unit, corner.y + ImGui::GetFrameHeight() / 2}, unit,
              colours.secondary);
  const std::string words =
      whose.empty() ? "" : fmt::format("layer.head; {} unpins\n", keys_of(Command::pin_head));
  help_tooltip(context.panel.fonts, (cut ? whole + "\n" : std::string()) + words + current.tooltip);
  if (open) {
    context.panel.ask(
        ChooseView{context.tile, {corner.x, corner.y + ImGui::GetFrameHeight() + 4 * unit}});
  }
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

/// Text of each choice that is being typed, or that is not a value. It stays until it is corrected.
using Drafts = std::map<std::string, std::string>;
/// What chosen names of things in the results stand for, as far as known.
using Names = std::map<std::string, std::string>;

/// One line about the error of a draft; empty without one.
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
                       const figure::ChoiceInfo& choice, const TileContext& context,
                       Drafts& drafts) {
  const Fonts& fonts = context.panel.fonts;
  const auto draft = drafts.find(choice.name);
  std::string text =
      draft != drafts.end() ? draft->second : figure::choice(view, tile.choices, choice.name);
  const std::string wrong = draft != drafts.end() ? fault(view, choice, text) : std::string();
  if (!wrong.empty()) ImGui::PushStyleColor(ImGuiCol_Text, context.panel.colours().error);
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
                 const TileContext& context, Drafts& drafts, const Names& names) {
  const bool named = choice.kind == figure::ChoiceKind::name;  // of something in the results
  if (!named && figure::is_typed(choice))
    return draw_typed_choice(tile, view, choice, context, drafts);
  const auto meant = names.find(choice.name);
  std::string value = named && meant != names.end()
                          ? meant->second
                          : figure::choice(view, tile.choices, choice.name);
  const std::string help = (named ? value + "\n" : "") + choice.tooltip;
  const auto values = [&] {
    return !named ? choice.values
                  : figure::names_in_study(view, tile.choices,
                                           context.panel.results.inputs(view).evaluation, choice);
  };
  ImGui::SetNextItemWidth(choice_width(choice));
  if (choose_word(("##" + choice.name).c_str(), value, values)) {
    tile.choices[choice.name] = value;
    tile.limits.reset();
  }
  help_tooltip(context.panel.fonts, help);
}

void draw_choice_title(const figure::ChoiceInfo& choice, const WindowColours& colours) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(colours.secondary), "%s", choice.title.c_str());
}

/// Whether one can choose A, B or both here: where a policy is looked at and there are two.
bool asks_for_side(const TileState& tile, const figure::FigureInfo& view,
                   const TileContext& context) {
  return needs_of(view, tile.choices).side() &&
         (context.panel.state.policy_b_on || tile.side == PolicySide::b);
}

float budget_width() {
  return ImGui::CalcTextSize("budget 100%").x + ImGui::GetFrameHeight() +
         2 * ImGui::GetStyle().FramePadding.x;
}

/// Whether the picture shows one of the budgets that an evaluation was run at.
bool asks_for_evaluated_budget(const TileState& tile, const figure::FigureInfo& view) {
  return needs_of(view, tile.choices).evaluated_budget;
}

/// The budgets of the results; the window's budget follows.
void draw_evaluated_budget(const figure::FigureInfo& view, const TileContext& context) {
  const auto evaluation = context.panel.results.inputs(view).evaluation;
  if (!evaluation) return;
  figure::FigureInput input;
  input.evaluation = evaluation;
  input.budget = context.panel.state.budget;
  std::string budget = figure::evaluated_budget(input);
  const std::string shown = "budget " + budget;
  ImGui::SetNextItemWidth(budget_width());
  if (choose_word(
          "##evaluated", budget, [&] { return evaluation->budgets(); }, shown.c_str())) {
    try {
      context.panel.state.budget = parse_entries_budget(budget);
    } catch (const UsageError& problem) {  // a results file may say anything
      context.panel.fail(problem.what());
    }
  }
  help_tooltip(context.panel.fonts, "The budget of the results that is shown");
}

float side_width() {
  return ImGui::CalcTextSize("A, B").x + ImGui::GetFrameHeight() +
         2 * ImGui::GetStyle().FramePadding.x;
}

void draw_side(TileState& tile, const figure::FigureInfo& view, const TileContext& context) {
  const WindowColours& colours = window_colours(context.panel.state.theme);
  const char* names[] = {"A, B", "A", "B"};
  const ImU32 inks[] = {colours.ink, colours.retained, colours.evicted};
  const bool draws_both = request::draws_policy_b(view, tile.choices);
  const PolicySide shown = draws_both || tile.side != PolicySide::both ? tile.side : PolicySide::a;
  const auto now = static_cast<std::size_t>(shown);
  ImGui::SetNextItemWidth(side_width());
  ImGui::PushStyleColor(ImGuiCol_Text, inks[now]);
  const bool open = ImGui::BeginCombo("##side", names[now]);
  ImGui::PopStyleColor();
  if (open) {
    for (const PolicySide side : {PolicySide::both, PolicySide::a, PolicySide::b}) {
      if (side == PolicySide::both && !draws_both) continue;
      if (list_line(names[static_cast<std::size_t>(side)], side == shown)) tile.side = side;
    }
    ImGui::EndCombo();
  } else {
    help_tooltip(context.panel.fonts,
                 "Which policy this view shows: " + context.panel.state.policy_a.text() + " or " +
                     context.panel.state.policy_b.text() + (draws_both ? "; A, B: both" : ""));
  }
}

/// The control before the choices: for the policy, or for the budget of results. Empty: none.
std::string first_control(const TileState& tile, const figure::FigureInfo& view,
                          const TileContext& context) {
  if (asks_for_side(tile, view, context)) return "policy";
  return asks_for_evaluated_budget(tile, view) ? "budget" : "";
}

float first_control_width(const std::string& control) {
  return control == "budget" ? budget_width() : side_width();
}

void draw_first_control(TileState& tile, const figure::FigureInfo& view,
                        const TileContext& context) {
  if (first_control(tile, view, context) == "budget") {
    draw_evaluated_budget(view, context);
  } else {
    draw_side(tile, view, context);
  }
}

void draw_reset(TileState& tile, const Fonts& fonts) {
  if (ImGui::Button("Reset")) {
    Tile::reset(tile);
    tile.limits.reset();
  }
  help_tooltip(fonts, "Resets the zoom and the colour limits (0, or double-click)");
}

/// The controls without room in the header.
struct Hidden {
  bool side = false;
  bool reset = false;
  std::span<const figure::ChoiceInfo> choices;
};

/// A button that opens it as a list, one control a line.
void draw_more(TileState& tile, const figure::FigureInfo& view, const Hidden& hidden,
               const TileContext& context, Drafts& drafts, const Names& meant) {
  const WindowColours& colours = window_colours(context.panel.state.theme);
  const std::string first = first_control(tile, view, context);
  if (ImGui::Button("…")) ImGui::OpenPopup("##more");
  if (!ImGui::IsPopupOpen("##more")) {
    std::string names;
    const auto add = [&](const std::string& line) { names += (names.empty() ? "" : "\n") + line; };
    if (hidden.side) add(first);
    for (const figure::ChoiceInfo& choice : hidden.choices)
      add(choice.title + ": " + figure::choice(view, tile.choices, choice.name));
    if (hidden.reset) add("Reset");
    help_tooltip(context.panel.fonts, names);
  }
  if (!ImGui::BeginPopup("##more")) return;
  float title_width = hidden.side ? ImGui::CalcTextSize(first.c_str()).x : 0.0F;
  for (const figure::ChoiceInfo& choice : hidden.choices) {
    title_width = std::max(title_width, ImGui::CalcTextSize(choice.title.c_str()).x);
  }
  const float x = ImGui::GetCursorPosX();
  const auto begin_control = [&] {
    ImGui::SameLine(x + title_width + 2 * ImGui::GetStyle().ItemSpacing.x);
  };
  if (hidden.side) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(colours.secondary), "%s", first.c_str());
    begin_control();
    draw_first_control(tile, view, context);
  }
  for (const figure::ChoiceInfo& choice : hidden.choices) {
    draw_choice_title(choice, colours);
    begin_control();
    draw_choice(tile, view, choice, context, drafts, meant);
  }
  if (hidden.reset) draw_reset(tile, context.panel.fonts);
  ImGui::EndPopup();
}

}  // namespace

void Tile::follow_results(const TileState& tile, const TileContext& context) {
  const figure::FigureInfo* view = find_view(tile.view);
  const auto evaluation =
      view && view->needs.evaluation ? context.panel.results.inputs(*view).evaluation : nullptr;
  if (!evaluation) return results_shown_.clear();
  std::string key = evaluation->path.string() + "\n" + evaluation->identity + "\n" + tile.view;
  for (const auto& [name, value] : tile.choices) key += "\n" + name + "=" + value;
  results_shown_.request(context.panel.results.quick(), key,
                         [view, evaluation, choices = tile.choices](Progress&, const auto&) {
                           return ResultsShown{figure::names_meant(*view, choices, evaluation),
                                               figure::results_text(*evaluation)};
                         });
}

void Tile::draw_header(TileState& tile, const TileContext& context, float width, bool active) {
  const WindowColours& colours = window_colours(context.panel.state.theme);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float unit = context.panel.fonts.scale();
  const float height = header_height(context.panel.fonts);

  const figure::FigureInfo& view = *find_view(tile.view);
  const float spacing = ImGui::GetStyle().ItemSpacing.x;
  const std::span<const figure::ChoiceInfo> choices = view.choices;
  const auto button = [&](const char* text) {
    return ImGui::CalcTextSize(text).x + 2 * ImGui::GetStyle().FramePadding.x + spacing;
  };

  const auto shown = results_shown_.value();
  const Names names = shown ? shown->names : Names();

  HeaderNeed need;
  need.title = static_cast<double>(title_width(
      whose_head(tile, view, context.panel.state) + title_of(view, context.panel.results),
      context.panel.fonts));
  ImGui::PushFont(context.panel.fonts.secondary);
  if (const std::string first = first_control(tile, view, context); !first.empty())
    need.side = static_cast<double>(first_control_width(first) + spacing);
  for (const figure::ChoiceInfo& choice : choices) {
    need.choices.push_back(static_cast<double>(ImGui::CalcTextSize(choice.title.c_str()).x +
                                               choice_width(choice) + 2 * spacing));
  }
  if (tile.x_range || tile.y_range || tile.limits)
    need.reset = static_cast<double>(button("Reset"));
  need.more = static_cast<double>(button("…"));
  need.dot = static_cast<double>(16 * unit);
  const HeaderLayout layout = lay_out_header(need, static_cast<double>(width));
  ImGui::PopFont();

  ImGui::SetCursorScreenPos({corner.x, corner.y + (height - ImGui::GetFrameHeight()) / 2});
  ImGui::BeginGroup();
  header_items_.clear();
  const auto note_item = [&] {
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 size = ImGui::GetItemRectSize();
    header_items_.push_back({static_cast<double>(low.x), static_cast<double>(low.y),
                             static_cast<double>(size.x), static_cast<double>(size.y)});
  };
  draw_title(tile, context, static_cast<float>(layout.title), active);
  note_item();
  ImGui::PushFont(context.panel.fonts.secondary);
  if (layout.side) {
    ImGui::SameLine();
    draw_first_control(tile, view, context);
    note_item();
  }
  for (const figure::ChoiceInfo& choice : choices.first(layout.choices)) {
    ImGui::SameLine();
    draw_choice_title(choice, colours);
    note_item();
    ImGui::SameLine();
    draw_choice(tile, view, choice, context, drafts_, names);
    note_item();
  }
  if (layout.more) {
    ImGui::SameLine();
    draw_more(tile, view,
              {need.side > 0.0 && !layout.side, need.reset > 0.0 && !layout.reset,
               choices.subspan(layout.choices)},
              context, drafts_, names);
    note_item();
  }
  if (layout.reset) {
    ImGui::SameLine();
    draw_reset(tile, context.panel.fonts);
    note_item();
  }
  ImGui::PopFont();
  ImGui::EndGroup();
  if (picture_.computing() || redrawn_.computing()) {
    computing_dot(context.panel.fonts, {corner.x + width - 8 * unit, corner.y + height / 2},
                  colours);
  }
}

}  // namespace kvloupe::window
