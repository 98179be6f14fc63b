#pragma once

#include <gtest/gtest.h>
#include <imgui.h>

#include <filesystem>
#include <memory>
#include <string>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {

/// A window to drive, and a folder of its own. Skipped where there is no display.
struct WindowTest : testing::Test {
  void SetUp() final {
    if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
    prepare();
  }
  /// The window ends before what a derived fixture holds: its jobs may still read that.
  void TearDown() override { driver_.reset(); }
  /// What a test does before its body.
  virtual void prepare() { start(); }

  /// Another window, in place of the one before.
  void start(int width = 1280, int height = 800, const window::Workspace::Host& host = {}) {
    driver_.reset();
    driver_ = std::make_unique<WindowDriver>(width, height, host);
  }
  /// Opens a trace and waits until nothing computes.
  void open_and_settle(const std::filesystem::path& trace) {
    open_file(trace);
    ASSERT_NE(w().results.trace(), nullptr) << w().notice;
  }
  /// Opens any file and waits until nothing computes.
  void open_file(const std::filesystem::path& file) {
    w().open(file.string());
    driver_->settle();
  }
  /// Types into the list that opens now, and takes its first line.
  WindowDriver& choose(const std::string& words) {
    return driver_->frames(2).type(words).frames(2).key(GLFW_KEY_ENTER);
  }
  /// Where a point of a tile's picture stands in the window, in pixels.
  std::pair<float, float> on_screen(figure::Point at, std::size_t tile = 0) {
    const window::Tile& shown = w().tiles[tile];
    return {shown.origin().x + static_cast<float>(at.x) * shown.scale(),
            shown.origin().y + static_cast<float>(at.y) * shown.scale()};
  }
  WindowDriver& driver() { return *driver_; }
  window::Workspace& w() { return driver_->workspace; }
  window::WorkspaceState& state() { return w().state; }

  TemporaryFolder folder_;
  std::unique_ptr<WindowDriver> driver_;
};

}  // namespace kvloupe::test
