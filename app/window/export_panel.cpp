#include "app/window/export_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <array>
#include <filesystem>
#include <sstream>

#include "app/figure/cairo_backend.h"
#include "app/figure/output_file.h"
#include "app/figure/style.h"
#include "app/figure/svg_backend.h"
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
constexpr double kPointsPerMillimetre = 72.0 / 25.4;
constexpr double kPrintResolution = 300.0 / 72.0;

/// The bytes of the file.
std::string encode(const figure::Figure& figure, const figure::DrawRequest& request, const std::string& format) {
  if (format == "csv") {
    std::ostringstream out;
    figure::CsvWriter csv(out);
    figure.write_csv(csv);
    return out.str();
  }
  const figure::Scene scene = figure.draw(request);
  if (format == "svg") return figure::write_svg(scene);
  if (format == "pdf") return figure::write_pdf(scene, *request.style.fonts);
  return figure::write_png(scene, *request.style.fonts, kPrintResolution);
}

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
  figure::DrawRequest request;
  request.style = figure::make_style(w.metrics, dark_ ? figure::Theme::dark : figure::Theme::light);
  request.width = kSizes[static_cast<std::size_t>(size_)].width * kPointsPerMillimetre;
  request.height = kSizes[static_cast<std::size_t>(size_)].height * kPointsPerMillimetre;
  request.x_range = tile.x_range;
  request.y_range = tile.y_range;
  request.limits = tile.limits;
  request.pixels_per_point = kPrintResolution;
  request.legend = legend_;
  const std::string path = path_;
  const std::string format = kFormats[static_cast<std::size_t>(format_)];
  written_.request(w.results.quick(), fmt::format("{}#{}", path, ++exports_),
                   [=](Progress&, const auto&) {
                     figure::write_whole_file(path, encode(**figure, request, format));
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
