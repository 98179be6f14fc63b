#include "app/window/window.h"

#include <charconv>
#include <memory>
#include <string>

#include "analysis/error.h"
#include "app/cli/commands.h"

namespace kvloupe::cli {

namespace {

constexpr int kLeastSide = 320;
constexpr int kMostSide = 8192;

/// WxH in pixels.
void parse_size(const std::string& text, int& width, int& height) {
  const char* end = text.data() + text.size();
  const auto [cross, first_error] = std::from_chars(text.data(), end, width);
  bool right = first_error == std::errc() && cross != end && *cross == 'x';
  if (right) {
    const auto [rest, second_error] = std::from_chars(cross + 1, end, height);
    right = second_error == std::errc() && rest == end;
  }
  if (!right || width < kLeastSide || height < kLeastSide || width > kMostSide ||
      height > kMostSide) {
    throw UsageError("--size " + text + ": write WIDTHxHEIGHT in pixels, each from " +
                     std::to_string(kLeastSide) + " to " + std::to_string(kMostSide) +
                     ", e.g. 1600x1000");
  }
}

}  // namespace

void add_window(CLI::App& app, Action& action) {
  const auto options = std::make_shared<window::WindowOptions>();
  const auto size = std::make_shared<std::string>();
  app.add_option(
      "INPUT", options->inputs,
      "Traces to open in the window (the first is shown, a closed-loop run beside its full run "
      "can be compared), or results of kvloupe-capture eval");
  app.add_option("--session", options->session, "Session file to restore");
  app.add_option("--screenshot", options->screenshot,
                 "Write one picture once all jobs are done, then exit");
  app.add_option("--size", *size, "Size of the window or the picture in pixels, WxH")
      ->default_str("1600x1000");
  action = [options, size] {
    if (!size->empty()) parse_size(*size, options->width, options->height);
    return window::run_window(*options);
  };
}

}  // namespace kvloupe::cli
