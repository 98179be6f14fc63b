#include "app/cli/window_options.h"

#include <charconv>
#include <cstdio>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "app/window/state/preferences.h"

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

void add_window_options(CLI::App& app, WindowWords& words) {
  app.add_option("--screenshot", words.options.screenshot,
                 "Write one picture when all jobs are done, then exit");
  app.add_option("--size", words.size, "Size of the window or the picture in pixels, WxH")
      ->default_str("1600x1000");
}

void load_plugins_of_preferences(WindowWords& words) {
  if (!words.options.screenshot.empty()) return;  // a picture does not depend on whose it is
  words.options.problems = window::load_preferred_plugins(window::preferences_path());
  for (const std::string& problem : words.options.problems) {
    std::fprintf(stderr, "kvloupe: %s\n", in_lines(problem).c_str());
  }
}

window::WindowOptions options_of(const WindowWords& words) {
  window::WindowOptions options = words.options;
  if (!words.size.empty()) parse_size(words.size, options.width, options.height);
  return options;
}

}  // namespace kvloupe::cli
