#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/scene/colour_map.h"
#include "app/window/state/chosen_sizes.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// Settings of a person for all windows to come.
struct Preferences {
  Theme theme = Theme::light;
  figure::AmountMap amounts = figure::AmountMap::viridis;
  double scale = 1.0;
  std::optional<bool> patterns;  // none: as the theme has it
  bool reduced_motion = false;   // nothing moves by itself: steps are not played
  std::string model;             // folder of the last capture
  std::string export_format = "svg";
  std::string export_size = "single column";
  double export_text = 8.0;          // points
  std::vector<std::string> plugins;  // policy libraries that every window loads
  ChosenSizes sizes;                 // of panels and tiles
  bool operator==(const Preferences&) const = default;
};

/// The path of the stored preferences: $XDG_CONFIG_HOME/kvloupe/preferences.json, else under
/// ~/.config; empty if neither is known.
std::filesystem::path preferences_path();

/// A missing or broken file, and each broken field, counts as absent.
Preferences read_preferences(const std::filesystem::path& file);
/// Also makes the folder. Errors are ignored: preferences are only a convenience.
void write_preferences(const Preferences& preferences, const std::filesystem::path& file);

}  // namespace kvloupe::window
