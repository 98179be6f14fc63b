#include "app/window/sheets/export_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "app/request/command_line.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/preferences.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr std::array kFormats = {"svg", "pdf", "png", "csv", "html"};
constexpr int kCsv = 3;
constexpr float kNames = 72.0F;
constexpr float kControls = 368.0F;
constexpr double kLeastText = 5.0;
constexpr double kMostText = 24.0;

struct SizePreset {
  const char* name;
  double width_mm;   // as high as the figure needs; 0: of `size`
  const char* size;  // as --size takes it
};
constexpr std::array kSizes = {SizePreset{"single column, 85 mm", 85.0, ""},
                               SizePreset{"double column, 178 mm", 178.0, ""},
                               SizePreset{"slide 16:9, 1600 × 900 px", 0.0, "1600x900px"}};

void field(const PanelContext& c, const char* text) { name_control(c.fonts, text, c.px(kNames)); }

}  // namespace

void ExportPanel::take(const Preferences& p) {
  const auto format = std::find(kFormats.begin(), kFormats.end(), p.export_format);
  if (format != kFormats.end()) format_ = static_cast<int>(format - kFormats.begin());
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    if (std::string_view(kSizes[i].name).starts_with(p.export_size)) size_ = static_cast<int>(i);
  }
  look_.text = p.export_text;
}

void ExportPanel::give(Preferences& p) const {
  p.export_format = kFormats[static_cast<std::size_t>(format_)];
  const std::string_view size = kSizes[static_cast<std::size_t>(size_)].name;
  p.export_size = size.substr(0, size.find(','));
  p.export_text = look_.text;
}

void ExportPanel::open(const PanelContext& c) {
  open_ = appeared_ = true;
  waits_ = false;
  look_.amounts = c.state.amounts;
  look_.patterns = shows_patterns(c.state);
  std::error_code error;
  const std::string& view = active_tile(c.state).view;
  path_ = (std::filesystem::current_path(error) /
           (view + "." + kFormats[static_cast<std::size_t>(format_)]))
              .string();
}

figure::FileOptions ExportPanel::file_options(const PanelContext& c) const {
  const TileState& tile = active_tile(c.state);
  const SizePreset& preset = kSizes[static_cast<std::size_t>(size_)];
  figure::FileOptions options = look_;
  if (preset.width_mm > 0.0) {
    options.width = preset.width_mm * figure::kPointsPerMillimetre;
  } else {
    options.size = figure::parse_page_size(preset.size);
  }
  options.x_range = tile.x_range;
  options.y_range = tile.y_range;
  options.limits = tile.limits;
  return options;
}

std::string ExportPanel::target() const {
  if (std::filesystem::path(path_).has_extension()) return path_;
  return path_ + "." + kFormats[static_cast<std::size_t>(format_)];
}

void ExportPanel::request_preview(const PanelContext& c, const Tile& tile) {
  const auto figure = tile.figure();
  if (!figure) return;
  const figure::FileOptions options = file_options(c);
  const figure::FigureInfo* info = find_view(active_tile(c.state).view);
  const PreviewKey key{tile.wanted(), options};
  const figure::TextMetrics* fonts = &c.metrics;
  preview_.request(c.results.quick(), key, [=](Progress&, const auto&) {
    return figure::page_of(*info, *figure, options, *fonts);
  });
}

/// Writes the file if the picture is ready; else waits_ stays, and the next frame tries again.
void ExportPanel::write(const PanelContext& c, const Tile& tile) {
  const auto figure = tile.error().empty() ? tile.figure() : nullptr;
  if (!figure && !tile.settled()) return;
  waits_ = false;
  if (!figure) {
    c.fail(!tile.error().empty()
               ? tile.error()
               : "The view was stopped. Continue it with Ctrl . and export again.");
    return;
  }
  const std::string path = target();
  const figure::FigureInfo* info = find_view(active_tile(c.state).view);
  figure::FileFormat format{};
  try {
    format = figure::format_of(path);
  } catch (const UsageError&) {
    c.fail(path + ": the name must end in .svg, .pdf, .png, .csv, .html or, for a table, .tex");
    return;
  }
  open_ = false;
  const figure::FileOptions options = file_options(c);
  const figure::TextMetrics* fonts = &c.metrics;
  written_.start(c.results.quick(), [=](Progress&) {
    write_whole_file(path, figure::file_of(*info, *figure, format, options, *fonts));
    return "Written: " + path;
  });
}

void ExportPanel::copy_command(const PanelContext& c, const Tile& tile) {
  const auto page = preview_.current();
  if (!page) {
    c.fail("The view is not ready yet; try again in a moment.");
    return;
  }
  const figure::FileOptions options = file_options(c);
  figure::PageSize size = options.size.value_or(figure::PageSize{page->width, page->height});
  const figure::FigureInfo& info = *find_view(active_tile(c.state).view);
  ImGui::SetClipboardText(
      request::command_line(info, tile.wanted(), options, size, target()).c_str());
  c.tell("Copied the command line that writes this figure.");
}

void ExportPanel::draw_look(const PanelContext& c) {
  field(c, "size");
  if (ImGui::BeginCombo("##size", kSizes[static_cast<std::size_t>(size_)].name)) {
    for (int i = 0; i < static_cast<int>(kSizes.size()); ++i) {
      if (list_line(kSizes[static_cast<std::size_t>(i)].name, size_ == i)) size_ = i;
    }
    ImGui::EndCombo();
  }
  field(c, "text");
  ImGui::SetNextItemWidth(c.px(112));
  if (ImGui::InputDouble("##text", &look_.text, 0.5, 1.0, "%.4g pt"))
    look_.text = std::clamp(look_.text, kLeastText, kMostText);
  help_tooltip(c.fonts, "Font size; journals ask for 7 to 9 points");
  field(c, "theme");
  for (const auto& [title, theme] : {std::pair{"light", figure::Theme::light},
                                     {"dark", figure::Theme::dark},
                                     {"high contrast", figure::Theme::high_contrast}}) {
    if (radio_button(title, look_.theme == theme, c.colours())) {
      look_.theme = theme;
      look_.patterns = c.state.patterns.value_or(figure::has_patterns(theme));
    }
    ImGui::SameLine();
  }
  ImGui::NewLine();
  field(c, "colours");
  ImGui::SetNextItemWidth(c.px(112));
  std::string colours(amount_map_name(look_.amounts));
  if (choose_word("##colours", colours, [] {
        return std::vector<std::string>{"viridis", "cividis", "grey"};
      }))
    look_.amounts = figure::parse_amount_map(colours);
  help_tooltip(c.fonts,
               "Colour map of amounts; signed values are blue, white, vermillion in every map");
  field(c, "with");
  checkbox("title", look_.title, c.colours());
  ImGui::SameLine();
  checkbox("legend", look_.legend, c.colours());
  ImGui::SameLine();
  checkbox("caption", look_.caption, c.colours());
  help_tooltip(c.fonts, "Writes a description and the settings under the figure");
  field(c, "");
  checkbox("patterns", *look_.patterns, c.colours());
  help_tooltip(c.fonts, "Lines and dots where colours show what is evicted, merged or protected");
}

void ExportPanel::draw_controls(const PanelContext& c, const Tile& tile) {
  field(c, "format");
  for (int i = 0; i < static_cast<int>(kFormats.size()); ++i) {
    if (i > 0) ImGui::SameLine();
    if (radio_button(kFormats[static_cast<std::size_t>(i)], format_ == i, c.colours())) {
      format_ = i;
      path_ = std::filesystem::path(path_)
                  .replace_extension(kFormats[static_cast<std::size_t>(i)])
                  .string();
    }
  }
  ImGui::BeginDisabled(format_ == kCsv);
  draw_look(c);
  ImGui::EndDisabled();
  field(c, "file");
  if (appeared_) ImGui::SetKeyboardFocusHere();
  bool accept = ImGui::InputText("##path", &path_, ImGuiInputTextFlags_EnterReturnsTrue);
  help_tooltip(c.fonts, path_);
  ImGui::Dummy({0, c.px(8)});
  accept |= ImGui::Button("Export", {c.px(88), 0});
  ImGui::SameLine();
  if (ImGui::Button("Copy command", {c.px(120), 0})) copy_command(c, tile);
  help_tooltip(c.fonts, "The kvloupe export command line that writes the same file");
  ImGui::SameLine();
  if (ImGui::Button("Close", {c.px(72), 0})) open_ = false;
  if (accept && !path_.empty()) waits_ = true;
  if (waits_) write(c, tile);
  if (waits_) {
    wrapped_text(c.colours().secondary, "Writes the file when the picture is ready …");
  }
}

void ExportPanel::draw_preview(const PanelContext& c) {
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(corner, {corner.x + room.x, corner.y + room.y}, c.colours().control);
  ImGui::Dummy(room);
  const auto page = preview_.value();
  const std::string error = preview_.error();
  const float margin = c.px(16);
  if (!error.empty() || !page) {
    const std::string text = error.empty() ? "computing …" : error;
    list.AddText(c.fonts.secondary, c.fonts.secondary->FontSize,
                 {corner.x + margin, corner.y + margin}, c.colours().secondary, text.c_str(),
                 nullptr, room.x - 2 * margin);
    return;
  }
  const auto width = static_cast<float>(page->width);
  const auto height = static_cast<float>(page->height);
  // As large as there is room for, but not larger than a page in the hand.
  constexpr float kLargest = 2.5F;
  const float scale =
      std::min({(room.x - 2 * margin) / width, (room.y - 3 * margin) / height, c.px(kLargest)});
  const ImVec2 at{std::floor(corner.x + (room.x - width * scale) / 2),
                  std::floor(corner.y + (room.y - margin - height * scale) / 2)};
  list.PushClipRect(at, {at.x + std::ceil(width * scale), at.y + std::ceil(height * scale)}, true);
  c.backend.draw(*page, list, at.x, at.y, scale);
  list.PopClipRect();
  const std::string size =
      fmt::format("{:.0f} × {:.0f} mm", page->width / figure::kPointsPerMillimetre,
                  page->height / figure::kPointsPerMillimetre);
  list.AddText(c.fonts.secondary, c.fonts.secondary->FontSize,
               {corner.x + margin, corner.y + room.y - margin / 2 - c.fonts.secondary->FontSize},
               c.colours().secondary, size.c_str());
}

void ExportPanel::draw(const PanelContext& c, const Tile& tile) {
  written_.follow(c);
  if (!open_) return;
  request_preview(c, tile);
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(c.px(960), screen.x - 32), std::min(c.px(520), screen.y - 64)};
  ImGui::SetNextWindowPos({(screen.x - size.x) / 2, (screen.y - size.y) / 3});
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(16), c.px(16)});
  if (appeared_) ImGui::SetNextWindowFocus();
  ImGui::Begin("##export", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  ImGui::PopStyleVar(2);
  text_in(c.fonts.heading, "Export: " + find_view(active_tile(c.state).view)->title);
  ImGui::Dummy({0, c.px(4)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {c.px(8), c.px(8)});
  const bool wide = size.x > c.px(640);
  ImGui::BeginChild("##controls", {wide ? c.px(kControls) : 0.0F, 0}, false,
                    ImGuiWindowFlags_NavFlattened);
  draw_controls(c, tile);
  ImGui::EndChild();
  appeared_ = false;
  if (wide) {
    ImGui::SameLine(0, c.px(16));
    ImGui::BeginChild("##preview");
    draw_preview(c);
    ImGui::EndChild();
  }
  ImGui::PopStyleVar();
  ImGui::End();
}

}  // namespace kvloupe::window
