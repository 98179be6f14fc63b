#include "app/window/sheets/start_page.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "app/window/state/lesson_player.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/recent_files.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {

constexpr const char* kCommand =
    "kvloupe-capture run --model MODEL_DIR --prompt prompt.txt -o trace.h5";
constexpr float kColumns = 760.0F;  // units of width from which there are two
constexpr float kFirstColumn = 344.0F;

/// The one button a new user is to find.
bool main_button(const PanelContext& c, const char* label, ImVec2 size) {
  const WindowColours& colours = c.colours();
  ImGui::PushStyleColor(ImGuiCol_Button, colours.retained);
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, faded(colours.retained, 0.9F));
  ImGui::PushStyleColor(ImGuiCol_ButtonActive, faded(colours.retained, 0.85F));
  ImGui::PushStyleColor(ImGuiCol_Text, colours.paper);
  ImGui::PushFont(c.fonts.heading);
  const bool pressed = ImGui::Button(label, size);
  ImGui::PopFont();
  ImGui::PopStyleColor(4);
  return pressed;
}

void secondary_text(const PanelContext& c, const std::string& text) {
  ImGui::PushFont(c.fonts.secondary);
  wrapped_text(c.colours().secondary, text);
  ImGui::PopFont();
}

/// A folder as its owner writes it: ~/traces.
std::string folder_text(const fs::path& file) {
  const std::string folder = file.parent_path().string();
  const char* home = std::getenv("HOME");
  if (home && *home == '/' && folder.starts_with(home)) {
    const std::string rest = folder.substr(std::string_view(home).size());
    if (rest.empty() || rest.front() == '/') return "~" + rest;
  }
  return folder;
}

}  // namespace

void StartPage::open_demo() {
  if (!demo_.running()) demo_.start({demo::DemoRun{}}, places_);
}

void StartPage::follow(const PanelContext& c) {
  const auto outcome = demo_.take();
  if (!outcome) return;
  if (!outcome->error.empty()) {
    c.fail("Demo: " + outcome->error);
  } else {
    c.ask(ShowTrace{outcome->traces.front(), outcome->rests_most});
  }
}

void StartPage::draw_demo(const PanelContext& c, float width) {
  const float height = c.px(40);
  if (capturing()) {
    const float cancel = c.px(80);
    ImGui::PushStyleColor(ImGuiCol_PlotHistogram, faded(c.colours().retained, 0.45F));
    const std::string text = fmt::format("Capturing the demo … {:.0f} %", 100 * fraction());
    ImGui::ProgressBar(static_cast<float>(fraction()),
                       {width - cancel - ImGui::GetStyle().ItemSpacing.x, height}, text.c_str());
    ImGui::PopStyleColor();
    ImGui::SameLine();
    if (ImGui::Button("Cancel", {cancel, height})) demo_.cancel();
  } else {
    const std::string label = "Open the demo  " + std::string(keys_of(Command::demo));
    if (main_button(c, label.c_str(), {width, height})) c.ask(Command::demo);
    help_tooltip(c.fonts,
                 "A click captures the trace in about a second and keeps it in your cache folder");
    if (!appeared_) ImGui::SetItemDefaultFocus();
  }
  secondary_text(c,
                 "A small language model that comes with kvloupe reads a text of five hundred "
                 "tokens with a hidden number and is asked for the number.");
}

void StartPage::draw_files(const PanelContext& c, const RecentFiles& recent, float width) {
  const float half = std::floor((width - ImGui::GetStyle().ItemSpacing.x) / 2);
  const std::string open = "Open…  " + std::string(keys_of(Command::open));
  if (ImGui::Button(open.c_str(), {half, 0})) c.ask(Command::open);
  help_tooltip(c.fonts,
               "A trace, a session, or results of kvloupe-capture eval or rescue, or of a study");
  ImGui::SameLine();
  const std::string capture = "New capture…  " + std::string(keys_of(Command::new_capture));
  if (ImGui::Button(capture.c_str(), {half, 0})) c.ask(Command::new_capture);
  help_tooltip(c.fonts,
               "Runs a model on a prompt and writes a trace. The model is a GGUF file, or a "
               "folder with config.json, model.safetensors and a tokenizer");
  secondary_text(c, "Or drop a file on this window: a trace, a session, results, a GGUF model.");

  if (!recent.files().empty()) {
    ImGui::Dummy({0, c.px(16)});
    text_in(c.fonts.heading, "Recently opened");
    std::string chosen;
    for (const std::string& file : recent.files()) {
      const fs::path path(file);
      ImGui::PushID(file.c_str());
      const float x = ImGui::GetCursorPosX();
      if (ImGui::Selectable("##file", false, 0, {width, ImGui::GetTextLineHeight()})) chosen = file;
      help_tooltip(c.fonts, file);
      ImGui::SameLine(x);
      const double units = static_cast<double>(width / c.fonts.scale());
      const std::string name =
          c.metrics.fit(path.filename().string(), figure::Font::regular, 15.0, units * 0.6);
      ImGui::TextUnformatted(name.c_str());
      ImGui::SameLine(0, c.px(12));
      const float left = width - (ImGui::GetCursorPosX() - x);
      ImGui::PushFont(c.fonts.secondary);
      const std::string folder = c.metrics.fit(folder_text(path), figure::Font::regular, 13.0,
                                               static_cast<double>(left / c.fonts.scale()));
      ImGui::TextDisabled("%s", folder.c_str());
      ImGui::PopFont();
      ImGui::PopID();
    }
    if (!chosen.empty()) c.ask(OpenFile{chosen});
  }

  ImGui::Dummy({0, c.px(16)});
  text_in(c.fonts.heading, "On the command line");
  secondary_text(c, "A trace of your own model:");
  ImGui::PushFont(c.fonts.mono);
  ImGui::TextWrapped("%s", kCommand);
  ImGui::PopFont();
  if (ImGui::Button("Copy the command")) {
    ImGui::SetClipboardText(kCommand);
    c.tell("Copied.");
  }
}

void StartPage::draw_lessons(const PanelContext& c, LessonPlayer& lessons, float width) {
  text_in(c.fonts.title, "Lessons");
  const auto list = lessons.list();
  if (!list) {
    const std::string error = lessons.list_error();
    secondary_text(c, error.empty() ? "Reading the lessons …" : error);
    return;
  }
  std::string chosen;
  const float margin = c.px(8);
  const float number = c.px(28);
  int count = 0;
  for (const lesson::Lesson& one : *list) {
    const bool broken = !one.error.empty();
    const std::string title = one.title.empty() ? one.name : one.title;
    const std::string& words = broken ? one.error : one.summary;
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float text_width = width - number - margin;
    const float small = c.fonts.secondary->FontSize;
    const float words_height =
        c.fonts.secondary->CalcTextSizeA(small, 1e6F, text_width, words.c_str()).y;
    const float height = c.fonts.heading->FontSize + words_height + c.px(2) + 2 * margin;
    ImGui::PushID(one.name.c_str());
    if (ImGui::Selectable("##lesson", false, 0, {width, height})) chosen = one.name;
    ImGui::PopID();
    help_tooltip(c.fonts, fmt::format("{} · {} {}", title, one.pages.size(),
                                      one.pages.size() == 1 ? "page" : "pages"));
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const ImVec2 at{corner.x + number, corner.y + margin};
    draw.AddText(c.fonts.heading, c.fonts.heading->FontSize, {corner.x + margin, at.y},
                 c.colours().retained, std::to_string(++count).c_str());
    draw.AddText(c.fonts.heading, c.fonts.heading->FontSize, at, c.colours().ink, title.c_str());
    draw.AddText(c.fonts.secondary, small, {at.x, at.y + c.fonts.heading->FontSize + c.px(2)},
                 broken ? c.colours().error : c.colours().secondary, words.c_str(), nullptr,
                 text_width);
  }
  if (list->empty()) secondary_text(c, "No lessons are installed with this program.");
  if (!chosen.empty()) c.ask(OpenLesson{chosen});
}

void StartPage::draw(const PanelContext& c, const RecentFiles& recent, LessonPlayer& lessons,
                     bool takes_keyboard) {
  if (c.results.opening()) {
    ImGui::SetCursorPos({c.px(32), c.px(32)});
    ImGui::TextUnformatted(("Opening " + c.state.trace + " …").c_str());
    appeared_ = false;
    return;
  }
  // The arrow keys move among its buttons.
  if (!appeared_ && takes_keyboard) ImGui::SetNextWindowFocus();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {c.px(8), c.px(6)});
  ImGui::BeginChild("##start", {0, 0}, false, ImGuiWindowFlags_None);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const bool two = room.x >= c.px(kColumns);
  const float width = std::floor(std::min(c.px(two ? 1000 : 560), room.x - c.px(32)));
  const float left = std::floor((room.x - width) / 2);
  const float first = two ? std::min(c.px(kFirstColumn), std::floor(width * 0.42F)) : width;
  const float gap = two ? std::min(c.px(64), std::floor(width * 0.06F)) : 0.0F;
  const float top = std::floor(std::max(c.px(24), room.y * 0.08F));
  ImGui::SetCursorPos({left, top});
  ImGui::BeginGroup();
  ImGui::PushTextWrapPos(left + first);
  ImGui::PushFont(c.fonts.title);
  ImGui::TextWrapped("See what a KV-cache policy does");
  ImGui::PopFont();
  ImGui::TextWrapped(
      "The tokens that a language model's cache keeps, head by head and step by step, and how much "
      "the output changes without the others.");
  ImGui::Dummy({0, c.px(8)});
  draw_demo(c, first);
  ImGui::Dummy({0, c.px(16)});
  draw_files(c, recent, first);
  ImGui::PopTextWrapPos();
  ImGui::EndGroup();
  if (two) {
    ImGui::SetCursorPos({left + first + gap, top});
  } else {
    ImGui::SetCursorPos({left, ImGui::GetCursorPosY() + c.px(24)});
  }
  ImGui::BeginGroup();
  ImGui::PushTextWrapPos(left + width);
  draw_lessons(c, lessons, width - (two ? first + gap : 0.0F));
  ImGui::PopTextWrapPos();
  ImGui::EndGroup();
  ImGui::Dummy({0, c.px(24)});
  ImGui::EndChild();
  ImGui::PopStyleVar();
  appeared_ = appeared_ || takes_keyboard;
}

}  // namespace kvloupe::window
