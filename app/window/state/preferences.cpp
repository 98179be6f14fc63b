#include "app/window/state/preferences.h"

#include <system_error>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/system/user_files.h"
#include "analysis/plugin/load_plugin.h"
#include "app/session/session.h"

namespace kvloupe::window {

namespace fs = std::filesystem;
using Json = JsonFields::Json;

namespace {
constexpr std::uintmax_t kMostBytes = 1 << 16;
constexpr double kLeastTextScale = 5.0;
constexpr double kMostText = 24.0;

/// Shares of a row: between 0, not chosen, and all of it.
void take_shares(const Json& json, ChosenSizes& sizes) {
  for (int count = 2; json.is_object() && count <= kMaxTiles; ++count) {
    const auto found = json.find(std::to_string(count));
    if (found == json.end() || !found->is_array() ||
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

void describe(JsonFields& f, Preferences& p) {
  f.word("theme", p.theme, theme_words());
  f.word("colours", p.amounts, amount_words());
  f("scale", p.scale, kMinScale, kMaxScale);
  f("reduced_motion", p.reduced_motion);
  f("model", p.model);
  f("export_format", p.export_format);
  f("export_size", p.export_size);
  f("export_text", p.export_text, kLeastTextScale, kMostText);
  f.either("plugins", p.plugins, [&](const Json& plugins) {
    for (const Json& value : plugins.is_array() ? plugins : Json::array())
      if (value.is_string()) p.plugins.push_back(value.get<std::string>());
  });
  f("patterns", p.patterns);
  if (!f.reads() && p.sizes == ChosenSizes{}) return;
  f.object("sizes", [&](JsonFields& sizes) {
    // Larger numbers are pixels of an earlier version.
    sizes("left", p.sizes.left, 0.0, 1.0);
    sizes("right", p.sizes.right, 0.0, 1.0);
    sizes("bottom", p.sizes.bottom, 0.0, 1.0);
    Json shares;
    for (const auto& [count, each] : p.sizes.tiles) shares[std::to_string(count)] = each;
    if (sizes.reads() || !shares.is_null())
      sizes.either("tiles", shares, [&](const Json& json) { take_shares(json, p.sizes); });
  });
}
}  // namespace

fs::path preferences_path() {
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? fs::path() : folder / "preferences.json";
}

Preferences read_preferences(const fs::path& file) {
  Preferences p;
  try {
    const Json json = Json::parse(read_file(file, kMostBytes), nullptr, false);
    JsonFields fields(json, "", true);
    describe(fields, p);
  } catch (const FileError&) {
  } catch (const FieldError&) {
  }
  return p;
}

void write_preferences(Preferences p, const fs::path& file) {
  if (file.empty()) return;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  Json json;
  JsonFields fields(json);
  describe(fields, p);
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
