#include "app/window/start_page.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "app/window/marks.h"
#include "app/window/workspace.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {

constexpr const char* kCommand =
    "kvloupe-capture run --model MODEL_DIR --prompt prompt.txt -o trace.h5";
constexpr float kColumns = 760.0F;  // units of width from which there are two
constexpr float kFirstColumn = 344.0F;

/// The one button a new user is to find.
bool main_button(const Workspace& w, const char* label, ImVec2 size) {
  const Palette& colours = w.colours();
  ImGui::PushStyleColor(ImGuiCol_Button, colours.retained);
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, faded(colours.retained, 0.85F));
  ImGui::PushStyleColor(ImGuiCol_ButtonActive, faded(colours.retained, 0.7F));
  ImGui::PushStyleColor(ImGuiCol_Text, colours.paper);
  ImGui::PushFont(w.fonts.heading);
  const bool pressed = ImGui::Button(label, size);
  ImGui::PopFont();
  ImGui::PopStyleColor(4);
  return pressed;
}

void secondary_text(const Workspace& w, const std::string& text) {
  ImGui::PushFont(w.fonts.secondary);
  ImGui::PushStyleColor(ImGuiCol_Text, w.colours().secondary);
  ImGui::TextWrapped("%s", text.c_str());
  ImGui::PopStyleColor();
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

void StartPage::follow(Workspace& w) {
  const auto outcome = demo_.take();
  if (!outcome) return;
  if (!outcome->error.empty()) {
    w.fail("Demo: " + outcome->error);
  } else {
    w.show(outcome->traces.front(), outcome->rests_most);
  }
}

void StartPage::draw_demo(Workspace& w, float width) {
  const float height = w.px(40);
  if (capturing()) {
    const float cancel = w.px(80);
    ImGui::PushStyleColor(ImGuiCol_PlotHistogram, faded(w.colours().retained, 0.45F));
    const std::string text = fmt::format("Capturing the demo … {:.0f} %", 100 * fraction());
    ImGui::ProgressBar(static_cast<float>(fraction()),
                       {width - cancel - ImGui::GetStyle().ItemSpacing.x, height}, text.c_str());
    ImGui::PopStyleColor();
    ImGui::SameLine();
    if (ImGui::Button("Cancel", {cancel, height})) demo_.cancel();
  } else {
    const std::string label = "Open the demo  " + std::string(keys_of(Command::demo));
    if (main_button(w, label.c_str(), {width, height})) w.perform(Command::demo);
    help_tooltip(w.fonts,
                 "Captured when you click, in about a second, and kept in your cache folder");
    if (!appeared_) ImGui::SetItemDefaultFocus();
  }
  secondary_text(w,
                 "A small language model that comes with kvloupe reads a text of five hundred "
                 "tokens with a hidden number and is asked for the number.");
}

void StartPage::draw_files(Workspace& w, float width) {
  const float half = std::floor((width - ImGui::GetStyle().ItemSpacing.x) / 2);
  const std::string open = "Open…  " + std::string(keys_of(Command::open));
  if (ImGui::Button(open.c_str(), {half, 0})) w.perform(Command::open);
  help_tooltip(w.fonts, "A trace, a session, or results of kvloupe-capture eval");
  ImGui::SameLine();
  const std::string capture = "New capture…  " + std::string(keys_of(Command::new_capture));
  if (ImGui::Button(capture.c_str(), {half, 0})) w.perform(Command::new_capture);
  help_tooltip(w.fonts,
               "Runs a model on a prompt and writes a trace. The model is a folder with "
               "config.json, model.safetensors and a tokenizer");
  secondary_text(w, "Or drop a file on this window.");

  if (!w.recent.files().empty()) {
    ImGui::Dummy({0, w.px(16)});
    ImGui::PushFont(w.fonts.heading);
    ImGui::TextUnformatted("Recently opened");
    ImGui::PopFont();
    std::string chosen;
    for (const std::string& file : w.recent.files()) {
      const fs::path path(file);
      ImGui::PushID(file.c_str());
      const float x = ImGui::GetCursorPosX();
      if (ImGui::Selectable("##file", false, 0, {width, ImGui::GetTextLineHeight()})) chosen = file;
      help_tooltip(w.fonts, file);
      ImGui::SameLine(x);
      const double units = static_cast<double>(width / w.fonts.scale());
      const std::string name =
          w.metrics.fit(path.filename().string(), figure::Font::regular, 15.0, units * 0.6);
      ImGui::TextUnformatted(name.c_str());
      ImGui::SameLine(0, w.px(12));
      const float left = width - (ImGui::GetCursorPosX() - x);
      ImGui::PushFont(w.fonts.secondary);
      const std::string folder = w.metrics.fit(folder_text(path), figure::Font::regular, 13.0,
                                               static_cast<double>(left / w.fonts.scale()));
      ImGui::TextDisabled("%s", folder.c_str());
      ImGui::PopFont();
      ImGui::PopID();
    }
    if (!chosen.empty()) w.open(chosen);  // changes the list
  }

  ImGui::Dummy({0, w.px(16)});
  ImGui::PushFont(w.fonts.heading);
  ImGui::TextUnformatted("On the command line");
  ImGui::PopFont();
  secondary_text(w, "A trace of your own model:");
  ImGui::PushFont(w.fonts.mono);
  ImGui::TextWrapped("%s", kCommand);
  ImGui::PopFont();
  if (ImGui::Button("Copy the command")) {
    ImGui::SetClipboardText(kCommand);
    w.tell("Copied.");
  }
}

void StartPage::draw_lessons(Workspace& w, float width) {
  ImGui::PushFont(w.fonts.title);
  ImGui::TextUnformatted("Lessons");
  ImGui::PopFont();
  const auto list = w.lessons.list();
  if (!list) {
    const std::string error = w.lessons.list_error();
    secondary_text(w, error.empty() ? "Reading the lessons …" : error);
    return;
  }
  std::string chosen;
  const float margin = w.px(8);
  const float number = w.px(28);
  int count = 0;
  for (const lesson::Lesson& one : *list) {
    const bool broken = !one.error.empty();
    const std::string title = one.title.empty() ? one.name : one.title;
    const std::string& words = broken ? one.error : one.summary;
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float text_width = width - number - margin;
    const float small = w.fonts.secondary->FontSize;
    const float words_height =
        w.fonts.secondary->CalcTextSizeA(small, 1e6F, text_width, words.c_str()).y;
    const float height = w.fonts.heading->FontSize + words_height + w.px(2) + 2 * margin;
    ImGui::PushID(one.name.c_str());
    if (ImGui::Selectable("##lesson", false, 0, {width, height})) chosen = one.name;
    ImGui::PopID();
    help_tooltip(w.fonts, fmt::format("{} · {} {}", title, one.pages.size(),
                                      one.pages.size() == 1 ? "page" : "pages"));
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const ImVec2 at{corner.x + number, corner.y + margin};
    draw.AddText(w.fonts.heading, w.fonts.heading->FontSize, {corner.x + margin, at.y},
                 w.colours().retained, std::to_string(++count).c_str());
    draw.AddText(w.fonts.heading, w.fonts.heading->FontSize, at, w.colours().ink, title.c_str());
    draw.AddText(w.fonts.secondary, small, {at.x, at.y + w.fonts.heading->FontSize + w.px(2)},
                 broken ? w.colours().error : w.colours().secondary, words.c_str(), nullptr,
                 text_width);
  }
  if (list->empty()) secondary_text(w, "No lessons are installed with this program.");
  if (!chosen.empty()) w.open_lesson(chosen);
}

void StartPage::draw(Workspace& w) {
  if (w.results.opening()) {
    ImGui::SetCursorPos({w.px(32), w.px(32)});
    ImGui::TextUnformatted(("Opening " + w.state.trace + " …").c_str());
    appeared_ = false;
    return;
  }
  if (!appeared_) ImGui::SetNextWindowFocus();  // the arrow keys move among its buttons
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {w.px(8), w.px(6)});
  ImGui::BeginChild("##start", {0, 0}, false, ImGuiWindowFlags_None);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const bool two = room.x >= w.px(kColumns);
  const float width = std::floor(std::min(w.px(two ? 1000 : 560), room.x - w.px(32)));
  const float left = std::floor((room.x - width) / 2);
  const float first = two ? std::min(w.px(kFirstColumn), std::floor(width * 0.42F)) : width;
  const float gap = two ? std::min(w.px(64), std::floor(width * 0.06F)) : 0.0F;
  const float top = std::floor(std::max(w.px(24), room.y * 0.08F));
  ImGui::SetCursorPos({left, top});
  ImGui::BeginGroup();
  ImGui::PushTextWrapPos(left + first);
  ImGui::PushFont(w.fonts.title);
  ImGui::TextWrapped("See what a KV-cache policy does");
  ImGui::PopFont();
  ImGui::TextWrapped(
      "Which tokens a language model's cache keeps, head by head and step by step, and how much "
      "the output changes without the others.");
  ImGui::Dummy({0, w.px(8)});
  draw_demo(w, first);
  ImGui::Dummy({0, w.px(16)});
  draw_files(w, first);
  ImGui::PopTextWrapPos();
  ImGui::EndGroup();
  if (two) {
    ImGui::SetCursorPos({left + first + gap, top});
  } else {
    ImGui::SetCursorPos({left, ImGui::GetCursorPosY() + w.px(24)});
  }
  ImGui::BeginGroup();
  ImGui::PushTextWrapPos(left + width);
  draw_lessons(w, width - (two ? first + gap : 0.0F));
  ImGui::PopTextWrapPos();
  ImGui::EndGroup();
  ImGui::Dummy({0, w.px(24)});
  ImGui::EndChild();
  ImGui::PopStyleVar();
  appeared_ = true;
}

}  // namespace kvloupe::window
