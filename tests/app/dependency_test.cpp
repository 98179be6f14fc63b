// The dependency rule of docs/architecture.md, read off the includes.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// "FILE:LINE: include" for every include below `folder` that matches `forbidden`.
std::vector<std::string> forbidden_includes(const std::string& folder, const std::regex& forbidden,
                                            int& files) {
  static const std::regex include(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  std::vector<std::string> found;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(KVLOUPE_SOURCE_DIR) / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp") continue;
    ++files;
    std::ifstream in(entry.path());
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      std::smatch match;
      if (std::regex_search(line, match, include) && std::regex_search(match[1].str(), forbidden)) {
        found.push_back(entry.path().string() + ":" + std::to_string(number) + ": " +
                        match[1].str());
      }
    }
  }
  return found;
}

TEST(Dependencies, AnalysisSeesNeitherTorchNorAGui) {
  int files = 0;
  const auto found = forbidden_includes(
      "analysis", std::regex("^(torch|ATen|c10|imgui|GLFW|GL|cairo|fontconfig|app|capture)[/.]"),
      files);
  EXPECT_GT(files, 10);
  EXPECT_TRUE(found.empty()) << found.front();
}

TEST(Dependencies, AppNeverSeesTorch) {
  int files = 0;
  const auto found = forbidden_includes("app", std::regex("^(torch|ATen|c10|capture)[/.]"), files);
  EXPECT_GT(files, 10);
  EXPECT_TRUE(found.empty()) << found.front();
}

TEST(Dependencies, CaptureNeverSeesTheApp) {
  int files = 0;
  const auto found =
      forbidden_includes("capture", std::regex("^(imgui|GLFW|GL|cairo|app)[/.]"), files);
  EXPECT_GT(files, 10);
  EXPECT_TRUE(found.empty()) << found.front();
}

TEST(Dependencies, LessonsNeedNoWindow) {
  int files = 0;
  // Of the window: what a session file holds, and its views; no panel, no ImGui, no display.
  const auto found = forbidden_includes(
      "app/lesson",
      std::regex("^(imgui|GLFW|GL[/.]|app/cli|app/html|app/figure/imgui|"
                 "app/window/(?!state[.]h|session[.]h|view_catalog[.]h|tile_settings[.]h))"),
      files);
  EXPECT_GT(files, 10);
  EXPECT_TRUE(found.empty()) << found.front();
}

TEST(Dependencies, OnlyTheImguiBackEndOfTheFiguresSeesImgui) {
  int files = 0;
  const auto found = forbidden_includes("app/figure", std::regex("^imgui"), files);
  EXPECT_GT(files, 5);
  for (const std::string& line : found) {
    EXPECT_NE(line.find("imgui_backend"), std::string::npos) << line;
  }
}

}  // namespace
