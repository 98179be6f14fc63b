#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/scene/colour_map.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// Sizes that a person gave by dragging borders. What has none is as large as the window finds fit.
struct ChosenSizes {
  // Width of the side panels and height of the panel below, as shares of the window; 0: not chosen.
  // As wished: a small window shows less of it, and nothing folds because of it.
  double left = 0.0, right = 0.0, bottom = 0.0;
  /// By the number of tiles: [tile] its share of the width of its row; 0: not chosen.
  std::map<int, std::vector<double>> tiles;
  bool operator==(const ChosenSizes&) const = default;
};

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
void write_preferences(Preferences preferences, const std::filesystem::path& file);

/// Loads the policy plugins that the preferences list (docs/plugins.md). The window opens whatever
/// they are like: the result says in one line for each what is wrong with those that were not
/// loaded. Call it before anything reads the catalogue of policies.
std::vector<std::string> load_preferred_plugins(const std::filesystem::path& preferences);

}  // namespace kvloupe::window
