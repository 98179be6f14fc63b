#include "app/window/export_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <array>
#include <filesystem>

#include "analysis/error.h"
#include "app/figure/figure_file.h"
#include "app/figure/output_file.h"
#include "app/window/marks.h"
#include "app/window/workspace.h"

namespace kvloupe::window {

namespace {

constexpr std::array kFormats = {"svg", "pdf", "png", "csv"};

struct SizePreset {
  const char* name;
  double width;   // millimetres
  double height;
};
constexpr std::array kSizes = {SizePreset{"single column, 85 × 70 mm", 85, 70},
                               SizePreset{"double column, 178 × 90 mm", 178, 90},
                               SizePreset{"slide 16:9, 254 × 143 mm", 254, 142.875}};

}  // namespace

void ExportPanel::open(const std::string& view) {
  open_ = appeared_ = true;
  std::error_code error;
  path_ = (std::filesystem::current_path(error) / (view + "." + kFormats[static_cast<std::size_t>(format_)])).string();
}

void ExportPanel::start(Workspace& w) {
  const auto at = static_cast<std::size_t>(w.state.active_tile);
  const auto figure = w.tiles[at].figure();
  if (!figure) {
    w.fail("The view is not computed yet; try again in a moment.");
    return;
  }
  const TileState& tile = w.state.tiles[at];
  const figure::FigureInfo* info = &window::info(*find_view(tile.view));
  const SizePreset& preset = kSizes[static_cast<std::size_t>(size_)];
  figure::FileOptions options;
  options.size = figure::PageSize{preset.width * figure::kPointsPerMillimetre,
                                  preset.height * figure::kPointsPerMillimetre};
  options.theme = dark_ ? figure::Theme::dark : figure::Theme::light;
  options.caption = caption_;
  options.legend = legend_;
  options.x_range = tile.x_range;
  options.y_range = tile.y_range;
  options.limits = tile.limits;
  std::string path = path_;
  if (!std::filesystem::path(path).has_extension()) {
    path += std::string(".") + kFormats[static_cast<std::size_t>(format_)];
  }
  figure::FileFormat format{};
  try {
    format = figure::format_of(path);
  } catch (const UsageError&) {
    w.fail(path + ": the name must end in .svg, .pdf, .png or .csv");
    return;
  }
  const figure::TextMetrics* fonts = &w.metrics;
  written_.request(w.results.quick(), fmt::format("{}#{}", path, ++exports_),
                   [=](Progress&, const auto&) {
                     figure::write_whole_file(
                         path, figure::file_of(*info, *figure, format, options, *fonts));
                     return path;
                   });
}

void ExportPanel::draw(Workspace& w) {
  if (const auto path = written_.current(); path && told_ != written_.key()) {
    told_ = written_.key();
    w.tell("Written: " + *path);
  }
  if (const std::string error = written_.error(); !error.empty() && told_ != written_.key()) {
    told_ = written_.key();
    w.fail(error);
  }
  if (!open_) return;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float width = std::min(w.px(560), screen.x - 32);
  ImGui::SetNextWindowPos({(screen.x - width) / 2, screen.y / 4});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {w.px(16), w.px(16)});
  if (appeared_) ImGui::SetNextWindowFocus();
  ImGui::Begin("##export", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  ImGui::PopStyleVar(2);
  ImGui::PushFont(w.fonts.heading);
  ImGui::TextUnformatted("Export the view");
  ImGui::PopFont();
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("format");
  for (int i = 0; i < static_cast<int>(kFormats.size()); ++i) {
    ImGui::SameLine(w.px(96) + static_cast<float>(i) * w.px(72));
    if (radio_button(kFormats[static_cast<std::size_t>(i)], format_ == i, w.colours())) {
      format_ = i;
      path_ = std::filesystem::path(path_)
                  .replace_extension(kFormats[static_cast<std::size_t>(i)])
                  .string();
    }
  }
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("size");
  ImGui::SameLine(w.px(96));
  ImGui::SetNextItemWidth(-1);
  if (ImGui::BeginCombo("##size", kSizes[static_cast<std::size_t>(size_)].name)) {
    for (int i = 0; i < static_cast<int>(kSizes.size()); ++i) {
      if (ImGui::Selectable(kSizes[static_cast<std::size_t>(i)].name, size_ == i)) size_ = i;
    }
    ImGui::EndCombo();
  }
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("look");
  ImGui::SameLine(w.px(96));
  checkbox("dark", dark_, w.colours());
  ImGui::SameLine();
  checkbox("legend", legend_, w.colours());
  ImGui::SameLine();
  checkbox("caption", caption_, w.colours());
  help_tooltip(w.fonts, "Under the figure: what is seen, in words, and the settings it was made with");
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("file");
  ImGui::SameLine(w.px(96));
  ImGui::SetNextItemWidth(-1);
  if (appeared_) ImGui::SetKeyboardFocusHere();
  appeared_ = false;
  bool accept = ImGui::InputText("##path", &path_, ImGuiInputTextFlags_EnterReturnsTrue);
  ImGui::SetCursorPosX(w.px(96));
  accept |= ImGui::Button("Export", {w.px(96), 0});
  ImGui::SameLine();
  if (ImGui::Button("Close", {w.px(96), 0})) open_ = false;
  ImGui::End();
  if (accept && !path_.empty()) {
    start(w);
    open_ = false;
  }
}

}  // namespace kvloupe::window
