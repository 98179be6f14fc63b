#pragma once

#include <filesystem>
#include <string>

#include "app/figure/colour_map.h"
#include "app/window/palette.h"

namespace kvloupe::window {

/// What a person has set once for all windows to come.
struct Preferences {
  Theme theme = Theme::light;
  figure::AmountMap amounts = figure::AmountMap::viridis;
  double scale = 1.0;
  std::string model;  // folder of the last capture
  std::string export_format = "svg";
  std::string export_size = "single column";
  double export_text = 8.0;  // points
  bool operator==(const Preferences&) const = default;
};

/// Where they are kept: $XDG_CONFIG_HOME/kvloupe/preferences.json, else under ~/.config; empty
/// where neither is known.
std::filesystem::path preferences_path();

/// A missing or broken file, and each broken field, is as if it were not there.
Preferences read_preferences(const std::filesystem::path& file);
/// Makes the folder, too. What cannot be written is forgotten: a convenience, not worth a word.
void write_preferences(const Preferences& preferences, const std::filesystem::path& file);

}  // namespace kvloupe::window
