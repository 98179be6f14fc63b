#include "app/window/panels/panels.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "app/window/state/lesson_player.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/rich_text.h"

namespace kvloupe::window {

namespace {

constexpr float kWidth = 340.0F;        // units
constexpr float kMostOfWindow = 0.36F;  // where that is too much
constexpr float kFolded = 40.0F;
constexpr float kLeastText = 120.0F;  // below that, text and task scroll together

std::string with_keys(const char* words, Command command) {
  return fmt::format("{} ({})", words, keys_of(command));
}

void wrapped(const PanelContext& c, const std::string& text, ImU32 colour) {
  ImGui::PushFont(c.fonts.secondary);
  wrapped_text(colour, text);
  ImGui::PopFont();
}

/// A button without a frame, with a mark drawn by `draw(list, centre, radius)`.
template <class Draw>
bool mark_button(const PanelContext& c, const char* id, const Draw& draw) {
  const float side = ImGui::GetFrameHeight();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImGui::PushStyleColor(ImGuiCol_Button, 0);
  const bool pressed = ImGui::Button(id, {side, side});
  ImGui::PopStyleColor();
  draw(*ImGui::GetWindowDrawList(), ImVec2{corner.x + side / 2, corner.y + side / 2}, c.px(4.5F));
  return pressed;
}

/// A button with two angles, which point right (1) or left (−1).
bool fold_button(const PanelContext& c, const char* id, float side) {
  return mark_button(c, id, [&](ImDrawList& list, ImVec2 at, float r) {
    for (const float x : {-0.6F, 0.6F}) {
      const ImVec2 points[] = {{at.x + (x - 0.5F * side) * r, at.y - r},
                               {at.x + (x + 0.5F * side) * r, at.y},
                               {at.x + (x - 0.5F * side) * r, at.y + r}};
      for (const int i : {0, 1})
        list.AddLine(points[i], points[i + 1], c.colours().secondary, c.px(1.5F));
    }
  });
}

/// The lesson's title, and the buttons that fold and close the panel.
void draw_head(const PanelContext& c, LessonPlayer& lessons) {
  const ImU32 ink = c.colours().secondary;
  const float thick = c.px(1.5F);
  const float buttons = 2 * ImGui::GetFrameHeight();
  const float width = ImGui::GetContentRegionAvail().x;
  const float left = ImGui::GetCursorPosX();
  ImGui::PushFont(c.fonts.secondary);
  ImGui::AlignTextToFramePadding();
  const std::string title =
      c.metrics.fit(lessons.lesson().title, figure::Font::regular, 13.0,
                    static_cast<double>((width - buttons - c.px(8)) / c.fonts.scale()));
  ImGui::TextDisabled("%s", title.c_str());
  ImGui::PopFont();
  help_tooltip(c.fonts, lessons.lesson().summary);
  ImGui::SameLine(0, 0);
  ImGui::SetCursorPosX(left + width - buttons);
  if (fold_button(c, "##fold", 1.0F)) c.ask(Command::lesson_panel);
  help_tooltip(c.fonts, with_keys("Folds the lesson", Command::lesson_panel));
  ImGui::SameLine(0, 0);
  if (mark_button(c, "##close", [&](ImDrawList& list, ImVec2 at, float r) {
        list.AddLine({at.x - r, at.y - r}, {at.x + r, at.y + r}, ink, thick);
        list.AddLine({at.x - r, at.y + r}, {at.x + r, at.y - r}, ink, thick);
      })) {
    c.ask(Command::lesson_close);
  }
  help_tooltip(c.fonts, "Closes the lesson; the window keeps showing the same view");
}

void copy_link(const PanelContext& c, const std::string& link) {
  if (link.empty()) return;
  ImGui::SetClipboardText(link.c_str());
  c.tell("Copied " + link);
}

/// Draws errors and running work, then the text. `width`: of the text; the room beyond is a scroll
/// bar's.
void draw_text(const PanelContext& c, LessonPlayer& lessons, float width) {
  const float gap = c.px(8);
  const auto error = [&](const std::string& line) {
    if (line.empty()) return;
    wrapped(c, line, c.colours().error);
    ImGui::Dummy({0, gap});
  };
  error(lessons.lesson().error);
  error(lessons.page_error());
  error(lessons.trace_error());
  if (lessons.capturing()) {
    wrapped(c, "Capturing this lesson's trace …", c.colours().secondary);
    ImGui::PushStyleColor(ImGuiCol_PlotHistogram, c.colours().retained);
    ImGui::ProgressBar(static_cast<float>(lessons.fraction()), {-1, c.px(6)}, "");
    ImGui::PopStyleColor();
    ImGui::Dummy({0, gap});
  }
  const RichLayout text = lay_out(lessons.text(), c.fonts,
                                  std::min(width, std::floor(ImGui::GetContentRegionAvail().x)));
  copy_link(c, draw_rich_text(text, c.fonts, c.colours(), c.colours().ink));
}

/// A tick in a circle, or the circle alone.
void draw_tick(const PanelContext& c, ImVec2 centre, bool met) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float r = c.px(8);
  if (!met) {
    list.AddCircle(centre, r, c.colours().secondary, 24, c.px(1.5F));
    return;
  }
  list.AddCircleFilled(centre, r, c.colours().protection, 24);
  const ImVec2 points[] = {{centre.x - 0.45F * r, centre.y + 0.02F * r},
                           {centre.x - 0.1F * r, centre.y + 0.38F * r},
                           {centre.x + 0.48F * r, centre.y - 0.35F * r}};
  list.AddPolyline(points, 3, c.colours().paper, 0, c.px(2));
}

constexpr float kTaskMargin = 12.0F;
constexpr float kTaskText = 36.0F;  // where it begins

RichLayout task_layout(const PanelContext& c, LessonPlayer& lessons, float width) {
  return lay_out(lessons.task_text(), c.fonts, width - c.px(kTaskText + kTaskMargin));
}

float task_height(const PanelContext& c, const RichLayout& text) {
  return text.height + 2 * c.px(kTaskMargin) - c.px(4);
}

void draw_task(const PanelContext& c, LessonPlayer& lessons, const RichLayout& text, float width) {
  const bool met = lessons.is_met(lessons.page());
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float height = task_height(c, text);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(corner, {corner.x + width, corner.y + height}, c.colours().paper, c.px(4));
  list.AddRect(corner, {corner.x + width, corner.y + height},
               met ? c.colours().protection : c.colours().faint, c.px(4));
  draw_tick(c, {corner.x + c.px(20), corner.y + c.px(kTaskMargin) + c.px(9)}, met);
  ImGui::SetCursorScreenPos({corner.x + c.px(kTaskText), corner.y + c.px(kTaskMargin) - c.px(2)});
  copy_link(c, draw_rich_text(text, c.fonts, c.colours(), c.colours().ink));
  ImGui::SetCursorScreenPos(corner);
  ImGui::Dummy({width, height});
  help_tooltip(c.fonts, met ? "Done" : "A task. Its box is ticked when you have done it");
}

/// A dot for each page, to be clicked.
void draw_dots(const PanelContext& c, LessonPlayer& lessons, float width) {
  const int count = lessons.page_count();
  const float height = ImGui::GetFrameHeight();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float pitch = std::min(c.px(14), width / static_cast<float>(std::max(1, count)));
  const float left = corner.x + (width - pitch * static_cast<float>(count)) / 2;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (int i = 0; i < count; ++i) {
    const lesson::Page& page = lessons.lesson().pages[static_cast<std::size_t>(i)];
    const float x = left + pitch * static_cast<float>(i);
    ImGui::SetCursorScreenPos({x, corner.y});
    ImGui::PushID(i);
    if (ImGui::InvisibleButton("##page", {pitch, height})) lessons.turn_to(i);
    help_tooltip(c.fonts, fmt::format("{} of {}: {}{}", i + 1, count, page.title,
                                      lessons.is_met(i) ? " ✓" : ""));
    ImGui::PopID();
    const ImVec2 centre{x + pitch / 2, corner.y + height / 2};
    const ImU32 colour = !page.error.empty() ? c.colours().error
                         : lessons.is_met(i) ? c.colours().protection
                                             : c.colours().secondary;
    if (i == lessons.page()) {
      list.AddCircleFilled(centre, std::min(c.px(4.5F), pitch * 0.45F), c.colours().retained, 16);
    } else {
      list.AddCircleFilled(centre, std::min(c.px(2.5F), pitch * 0.3F), colour, 12);
    }
  }
  ImGui::SetCursorScreenPos(corner);
  ImGui::Dummy({width, height});
}

float foot_height(const PanelContext& c) { return 2 * ImGui::GetFrameHeight() + c.px(8); }

/// Back, the dots, next; and the page's view again.
void draw_foot(const PanelContext& c, LessonPlayer& lessons, float width) {
  const float button = c.px(72);
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  ImGui::BeginDisabled(!lessons.view_changed(c.state, c.results));
  if (ImGui::Button("Return to this page's view", {width, 0})) c.ask(Command::lesson_view);
  ImGui::EndDisabled();
  help_tooltip(c.fonts, lessons.view_changed(c.state, c.results)
                            ? with_keys("Shows the view of this page again", Command::lesson_view)
                            : "The window shows this page's view. Try its controls: this button "
                              "brings the view back.");
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + c.px(8) - ImGui::GetStyle().ItemSpacing.y);
  ImGui::BeginDisabled(lessons.page() == 0);
  if (ImGui::Button("Back", {button, 0})) c.ask(Command::lesson_back);
  ImGui::EndDisabled();
  help_tooltip(c.fonts, with_keys("Previous page", Command::lesson_back));
  ImGui::SameLine(0, gap);
  draw_dots(c, lessons, std::max(1.0F, width - 2 * (button + gap)));
  ImGui::SameLine(0, gap);
  const bool last = lessons.page() + 1 >= lessons.page_count();
  const auto next = last ? lessons.next_lesson() : std::nullopt;
  ImGui::BeginDisabled(last && !next);
  const bool pressed = ImGui::Button(last && next ? "Continue###Next" : "Next###Next", {button, 0});
  ImGui::EndDisabled();
  help_tooltip(c.fonts,
               !last  ? with_keys("Next page", Command::lesson_next)
               : next ? with_keys(("Next lesson: " + next->title).c_str(), Command::lesson_next)
                      : "This is the last page of the last lesson");
  if (pressed) c.ask(Command::lesson_next);
}

void draw_folded(const PanelContext& c, LessonPlayer& lessons) {
  ImGui::SetCursorPosX(std::floor((ImGui::GetWindowWidth() - ImGui::GetFrameHeight()) / 2));
  if (fold_button(c, "##unfold", -1.0F)) c.ask(Command::lesson_panel);
  help_tooltip(c.fonts, with_keys("Shows the lesson", Command::lesson_panel));
  ImGui::PushFont(c.fonts.secondary);
  const std::string text = fmt::format("{}/{}", lessons.page() + 1, lessons.page_count());
  ImGui::SetCursorPosX(
      std::floor((ImGui::GetWindowWidth() - ImGui::CalcTextSize(text.c_str()).x) / 2));
  ImGui::TextDisabled("%s", text.c_str());
  ImGui::PopFont();
}

}  // namespace

float lesson_panel_width(const LessonPlayer& lessons, bool folded, float unit, float window_width) {
  if (!lessons.is_open()) return 0.0F;
  if (folded) return unit * kFolded;
  return std::floor(std::min(unit * kWidth, window_width * kMostOfWindow));
}

void draw_lesson_panel(const PanelContext& c, LessonPlayer& lessons, bool folded) {
  if (!lessons.is_open()) return;
  if (folded) {
    draw_folded(c, lessons);
    return;
  }
  draw_head(c, lessons);
  const lesson::Page* page = lessons.shown_page();
  const float width = std::floor(ImGui::GetContentRegionAvail().x);
  if (page) {
    ImGui::PushFont(c.fonts.title);
    ImGui::TextWrapped("%s", page->title.c_str());
    ImGui::PopFont();
    ImGui::Dummy({0, c.px(4)});
  }
  const bool has_task = page && page->task && !page->task->text.empty();
  const float gap = c.px(12);
  const RichLayout fixed = has_task ? task_layout(c, lessons, width) : RichLayout{};
  const float bottom = foot_height(c) + gap + (has_task ? task_height(c, fixed) + gap : 0.0F);
  const float room = ImGui::GetContentRegionAvail().y;
  const bool together = room - bottom < c.px(kLeastText);
  const float text_height = std::max(1.0F, together ? room - foot_height(c) - gap : room - bottom);
  // A page turned is read from its top.
  ImGui::PushID(lessons.page());
  ImGui::BeginChild("##text", {width + c.px(12), text_height}, false,
                    c.keyboard ? ImGuiWindowFlags_NavFlattened : ImGuiWindowFlags_NoNavInputs);
  ImGui::PushTextWrapPos(width);
  draw_text(c, lessons, width);
  if (has_task && together) {
    ImGui::Dummy({0, gap});
    const float inside = std::min(width, std::floor(ImGui::GetContentRegionAvail().x));
    draw_task(c, lessons, task_layout(c, lessons, inside), inside);
  }
  ImGui::PopTextWrapPos();
  ImGui::EndChild();
  ImGui::PopID();
  const float spacing = ImGui::GetStyle().ItemSpacing.y;
  if (has_task && !together) {
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + gap - spacing);
    draw_task(c, lessons, fixed, width);
  }
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + gap - spacing);
  draw_foot(c, lessons, width);
}

void draw_lesson_list(const PanelContext& c, LessonPlayer& lessons) {
  const auto list = lessons.list();
  if (!list) {
    ImGui::TextDisabled("%s", lessons.list_error().empty() ? "Reading the lessons …"
                                                           : lessons.list_error().c_str());
    return;
  }
  for (const lesson::Lesson& one : *list) {
    const bool open = lessons.is_open() && lessons.lesson().path == one.path;
    ImGui::PushID(one.name.c_str());
    if (ImGui::MenuItem(one.title.empty() ? one.name.c_str() : one.title.c_str(), nullptr, open))
      c.ask(OpenLesson{one.name});
    help_tooltip(c.fonts, one.error.empty() ? one.summary : one.error);
    ImGui::PopID();
  }
}

}  // namespace kvloupe::window
