#include "app/window/state/preferences.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/user_files.h"
#include "app/session/state.h"

namespace kvloupe::window {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {
constexpr std::uintmax_t kMostBytes = 1 << 16;
constexpr double kLeastTextScale = 5.0;
constexpr double kMostText = 24.0;

void take(const Json& json, const char* field, std::string& value) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_string()) value = it->get<std::string>();
}
void take(const Json& json, const char* field, std::vector<std::string>& values) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_array()) return;
  for (const Json& value : *it) {
    if (value.is_string()) values.push_back(value.get<std::string>());
  }
}
void take(const Json& json, const char* field, std::optional<bool>& value) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_boolean()) value = it->get<bool>();
}
void take(const Json& json, const char* field, double& value, double least, double most) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_number()) return;
  const double number = it->get<double>();
  if (number >= least && number <= most) value = number;
}

/// Shares of a row: between 0, not chosen, and all of it.
void take_shares(const Json& json, ChosenSizes& sizes) {
  const auto it = json.find("tiles");
  if (it == json.end() || !it->is_object()) return;
  for (int count = 2; count <= kMaxTiles; ++count) {
    const auto found = it->find(std::to_string(count));
    if (found == it->end() || !found->is_array() ||
        found->size() != static_cast<std::size_t>(count)) {
      continue;
    }
    std::vector<double> shares;
    for (const Json& share : *found) {
      const double value = share.is_number() ? share.get<double>() : -1.0;
      if (value >= 0.0 && value < 1.0) shares.push_back(value);
    }
    if (shares.size() == found->size()) sizes.tiles[count] = std::move(shares);
  }
}

void take(const Json& json, const char* field, ChosenSizes& sizes) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_object()) return;
  // Larger numbers are pixels of an earlier version.
  take(*it, "left", sizes.left, 0.0, 1.0);
  take(*it, "right", sizes.right, 0.0, 1.0);
  take(*it, "bottom", sizes.bottom, 0.0, 1.0);
  take_shares(*it, sizes);
}

Json sizes_json(const ChosenSizes& sizes) {
  Json json = {{"left", sizes.left}, {"right", sizes.right}, {"bottom", sizes.bottom}};
  for (const auto& [count, shares] : sizes.tiles) json["tiles"][std::to_string(count)] = shares;
  return json;
}
}  // namespace

fs::path preferences_path() {
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? fs::path() : folder / "preferences.json";
}

Preferences read_preferences(const fs::path& file) {
  Preferences p;
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kMostBytes) return p;
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  const Json json = Json::parse(text.str(), nullptr, false);
  if (!json.is_object()) return p;
  std::string theme = "light";
  take(json, "theme", theme);
  p.theme = figure::theme_named(theme).value_or(Theme::light);
  std::string colours = "viridis";
  take(json, "colours", colours);
  try {
    p.amounts = figure::parse_amount_map(colours);
  } catch (const UsageError&) {  // as if it were not there
  }
  take(json, "scale", p.scale, kMinScale, kMaxScale);
  take(json, "patterns", p.patterns);
  std::optional<bool> reduced_motion;
  take(json, "reduced_motion", reduced_motion);
  p.reduced_motion = reduced_motion.value_or(false);
  take(json, "model", p.model);
  take(json, "export_format", p.export_format);
  take(json, "export_size", p.export_size);
  take(json, "export_text", p.export_text, kLeastTextScale, kMostText);
  take(json, "plugins", p.plugins);
  take(json, "sizes", p.sizes);
  return p;
}

void write_preferences(const Preferences& p, const fs::path& file) {
  if (file.empty()) return;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  Json json = {{"theme", std::string(theme_name(p.theme))},
               {"colours", std::string(amount_map_name(p.amounts))},
               {"scale", p.scale},
               {"reduced_motion", p.reduced_motion},
               {"model", p.model},
               {"export_format", p.export_format},
               {"export_size", p.export_size},
               {"export_text", p.export_text},
               {"plugins", p.plugins}};
  if (p.patterns) json["patterns"] = *p.patterns;
  if (p.sizes != ChosenSizes{}) json["sizes"] = sizes_json(p.sizes);
  try {
    write_whole_file(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const FileError&) {
  }
}

std::vector<std::string> load_preferred_plugins(const std::filesystem::path& preferences) {
  std::vector<std::string> problems;
  for (const std::string& file : read_preferences(preferences).plugins) {
    try {
      load_plugin(file);
    } catch (const FileError& problem) {
      problems.emplace_back(problem.what());
    }
  }
  return problems;
}

}  // namespace kvloupe::window
