#include "app/session/session.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/read_file.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/view_catalog.h"

namespace kvloupe::window {

namespace {

using Json = nlohmann::ordered_json;
using Range = std::optional<std::pair<double, double>>;

constexpr std::string_view kFormat = "kvloupe-session";
constexpr int kVersion = 1;
constexpr std::uintmax_t kMaxBytes = 1 << 20;

Json range_json(const Range& range) {
  return range ? Json::array({range->first, range->second}) : Json(nullptr);
}

/// "FIELD is wrong": the error of one field.
struct FieldError {
  std::string problem;
};

/// Reads fields of one JSON object; knows where it is, for the message. Throws FieldError.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail(where_, "must be an object");
  }

  [[noreturn]] static void fail(const std::string& field, const std::string& problem) {
    throw FieldError{field + " " + problem};
  }
  std::string name(const char* field) const {
    return where_.empty() ? field : where_ + "." + field;
  }

  void only(std::initializer_list<std::string_view> fields) const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(fields.begin(), fields.end(), key) == fields.end()) {
        fail(name(key.c_str()), "is not a field that this version knows");
      }
    }
  }
  const Json* find(const char* field) const {
    const auto it = object_.find(field);
    return it == object_.end() ? nullptr : &*it;
  }
  void read(const char* field, std::string& value) const {
    if (const Json* json = find(field)) {
      if (!json->is_string()) fail(name(field), "must be a text");
      value = json->get<std::string>();
    }
  }
  void read(const char* field, bool& value) const {
    if (const Json* json = find(field)) {
      if (!json->is_boolean()) fail(name(field), "must be true or false");
      value = json->get<bool>();
    }
  }
  void read(const char* field, int& value, int least, int most) const {
    if (const Json* json = find(field)) {
      if (!json->is_number_integer()) fail(name(field), "must be a whole number");
      const double number = json->get<double>();
      if (number < least || number > most) {
        fail(name(field),
             "must be between " + std::to_string(least) + " and " + std::to_string(most));
      }
      value = json->get<int>();
    }
  }
  void read(const char* field, double& value, double least, double most) const {
    if (const Json* json = find(field)) {
      if (!json->is_number()) fail(name(field), "must be a number");
      const double number = json->get<double>();
      if (!(number >= least && number <= most)) fail(name(field), "is out of range");
      value = number;
    }
  }
  void read(const char* field, Range& range) const {
    const Json* json = find(field);
    if (!json || json->is_null()) return;
    if (!json->is_array() || json->size() != 2 || !(*json)[0].is_number() ||
        !(*json)[1].is_number()) {
      fail(name(field), "must be two numbers or null");
    }
    const double first = (*json)[0].get<double>();
    const double last = (*json)[1].get<double>();
    if (!std::isfinite(first) || !std::isfinite(last) || first == last) {
      fail(name(field), "must be two different, finite numbers");
    }
    range = {first, last};
  }
  void word(const char* field, std::string& value,
            std::initializer_list<std::string_view> words) const {
    read(field, value);
    if (std::find(words.begin(), words.end(), value) == words.end()) {
      fail(name(field), "has no value \"" + value + "\"");
    }
  }

 private:
  const Json& object_;
  std::string where_;
};

constexpr int kMost = 1 << 30;

void read_tile(const Reader& tile, TileState& state) {
  tile.only({"view", "choices", "policy", "x_range", "y_range", "limits", "pinned"});
  tile.read("view", state.view);
  const figure::FigureInfo* view = find_view(state.view);
  if (!view) tile.fail(tile.name("view"), "\"" + state.view + "\" is not a view");
  if (const Json* choices = tile.find("choices")) {
    if (!choices->is_object()) tile.fail(tile.name("choices"), "must be an object");
    state.choices.clear();
    for (const auto& [key, value] : choices->items()) {
      if (!value.is_string()) tile.fail(tile.name("choices"), "must contain only texts");
      state.choices[key] = value.get<std::string>();
    }
    try {
      figure::check_choices(*view, state.choices);
    } catch (const UsageError& error) {
      tile.fail(tile.name("choices"), std::string("are not valid: ") + error.what());
    }
  }
  std::string side = "both";
  tile.word("policy", side, {"both", "A", "B"});
  state.side = side == "A" ? PolicySide::a : side == "B" ? PolicySide::b : PolicySide::both;
  state.x_range.reset();
  state.y_range.reset();
  state.limits.reset();
  tile.read("x_range", state.x_range);
  tile.read("y_range", state.y_range);
  tile.read("limits", state.limits);
  state.pinned.reset();
  if (const Json* pinned = tile.find("pinned"); pinned != nullptr && !pinned->is_null()) {
    const Reader head(*pinned, tile.name("pinned"));
    head.only({"layer", "head"});
    state.pinned.emplace();
    head.read("layer", state.pinned->layer, 0, kMost);
    head.read("head", state.pinned->head, 0, kMost);
  }
}

/// The common part of a session and a page of a lesson.
void read_workspace(const Reader& root, WorkspaceState& s) {
  if (const Json* selection = root.find("selection")) {
    const Reader at(*selection, "selection");
    at.only({"layer", "head", "query_head", "step", "token", "first_token", "last_token"});
    at.read("layer", s.selection.layer, 0, kMost);
    at.read("head", s.selection.head, 0, kMost);
    at.read("query_head", s.selection.query_head, -1, kMost);
    at.read("step", s.selection.step, -1, kMost);
    at.read("token", s.selection.token, -1, kMost);
    at.read("first_token", s.selection.first_token, 0, kMost);
    at.read("last_token", s.selection.last_token, -1, kMost);
  }
  root.read("policy_b_on", s.policy_b_on);
  const auto parsed = [&](const char* field, auto& value, auto&& parse) {
    std::string text = value.text();
    root.read(field, text);
    try {
      value = parse(text);
    } catch (const UsageError& problem) {
      Reader::fail(field, std::string("is not valid: ") + problem.what());
    }
  };
  parsed("policy_a", s.policy_a, parse_policy);
  parsed("policy_b", s.policy_b, parse_policy);
  parsed("budget", s.budget, parse_entries_budget);
  root.read("block", s.block, 0, kMost);
  std::string compression;
  root.word("compression", compression, {"", "regular", "context-only"});
  if (!compression.empty()) {
    s.compression = compression == "regular" ? Compression::regular : Compression::context_only;
  }
  std::string grid = figure::find_overview_measure(s.grid_measure)->session_word();
  root.read("grid_metric", grid);
  const auto& measures = figure::overview_measures();
  const auto shown = std::find_if(measures.begin(), measures.end(), [&](const auto& one) {
    return one.session_word() == grid || one.name == grid;
  });
  if (grid.empty() || shown == measures.end())
    Reader::fail("grid_metric", "has no value \"" + grid + "\"");
  s.grid_measure = shown->name;
  root.word("grid_scale", s.grid_scale, {"auto", "linear", "log", "relative"});
  root.read("followed", s.followed);
  root.word("token_colour", s.token_colour, {"fate", "score", "heads", "difference", "none"});
  if (const Json* tiles = root.find("tiles")) {
    if (!tiles->is_array() || tiles->size() > kMaxTiles)
      Reader::fail("tiles", "must be a list of at most 4");
    for (std::size_t i = 0; i < tiles->size(); ++i) {
      read_tile(Reader((*tiles)[i], "tiles[" + std::to_string(i) + "]"), s.tiles[i]);
    }
  }
  root.read("tile_count", s.tile_count, 1, kMaxTiles);
  root.read("active_tile", s.active_tile, 0, s.tile_count - 1);
  root.read("left_panel", s.left_panel);
  root.read("right_panel", s.right_panel);
  root.read("bottom_panel", s.bottom_panel);
}

/// A whole session file's content. Throws FieldError; FileError for another format or version.
WorkspaceState session_of(const std::string& name, const Json& json) {
  const Reader root(json, "");
  std::string format;
  root.read("format", format);
  if (format != kFormat) throw FileError(name, "is not a kvloupe session; choose another file");
  int version = 0;
  root.read("format_version", version, 1, kMost);
  if (version == 0) root.fail("format_version", "is missing");
  if (version > kVersion) {
    throw FileError(name, "is of the newer format version " + std::to_string(version) +
                              "; use a newer kvloupe");
  }
  root.only({"format",      "format_version", "trace",       "selection",    "policy_a",
             "policy_b",    "policy_b_on",    "budget",      "block",        "compression",
             "grid_metric", "grid_scale",     "followed",    "token_colour", "tiles",
             "tile_count",  "active_tile",    "theme",       "colours",      "scale",
             "patterns",    "left_panel",     "right_panel", "bottom_panel"});

  WorkspaceState s = default_state();
  root.read("trace", s.trace);
  read_workspace(root, s);
  std::string theme(theme_name(s.theme));
  root.read("theme", theme);
  const std::optional<Theme> named = figure::theme_named(theme);
  if (!named) Reader::fail("theme", "has no value \"" + theme + "\"");
  s.theme = *named;
  if (bool patterns = false; root.find("patterns") != nullptr) {
    root.read("patterns", patterns);
    s.patterns = patterns;
  }
  std::string colours(amount_map_name(s.amounts));
  root.word("colours", colours, {"viridis", "cividis", "grey"});
  s.amounts = figure::parse_amount_map(colours);
  root.read("scale", s.scale, kMinScale, kMaxScale);
  return s;
}

}  // namespace

std::string session_text(const WorkspaceState& s) {
  Json tiles = Json::array();
  for (const TileState& tile : s.tiles) {
    Json choices = Json::object();
    for (const auto& [name, value] : tile.choices) choices[name] = value;
    tiles.push_back({{"view", tile.view},
                     {"choices", choices},
                     {"policy", tile.side == PolicySide::a   ? "A"
                                : tile.side == PolicySide::b ? "B"
                                                             : "both"},
                     {"x_range", range_json(tile.x_range)},
                     {"y_range", range_json(tile.y_range)},
                     {"limits", range_json(tile.limits)}});
    if (tile.pinned)
      tiles.back()["pinned"] = {{"layer", tile.pinned->layer}, {"head", tile.pinned->head}};
  }
  const figure::Selection& at = s.selection;
  Json json = {{"format", kFormat},
               {"format_version", kVersion},
               {"trace", s.trace},
               {"selection",
                {{"layer", at.layer},
                 {"head", at.head},
                 {"query_head", at.query_head},
                 {"step", at.step},
                 {"token", at.token},
                 {"first_token", at.first_token},
                 {"last_token", at.last_token}}},
               {"policy_a", s.policy_a.text()},
               {"policy_b", s.policy_b.text()},
               {"policy_b_on", s.policy_b_on},
               {"budget", s.budget.text()},
               {"block", s.block},
               {"compression", s.compression ? compression_name(*s.compression) : ""},
               {"grid_metric", figure::find_overview_measure(s.grid_measure)->session_word()},
               {"grid_scale", s.grid_scale},
               {"token_colour", s.token_colour},
               {"tiles", tiles},
               {"tile_count", s.tile_count},
               {"active_tile", s.active_tile},
               {"theme", std::string(theme_name(s.theme))},
               {"colours", std::string(amount_map_name(s.amounts))},
               {"scale", s.scale},
               {"left_panel", s.left_panel},
               {"right_panel", s.right_panel},
               {"bottom_panel", s.bottom_panel}};
  // Programs from before do not know these fields: only who uses them writes them.
  if (s.patterns) json["patterns"] = *s.patterns;
  if (s.followed != default_state().followed) json["followed"] = s.followed;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_session_file(const std::filesystem::path& path) { return path.extension() == ".json"; }

WorkspaceState read_session(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw FileError(name, "no such session file; check the path");
  }
  if (std::filesystem::file_size(path, error) > kMaxBytes) {
    throw FileError(name, "is too large for a session file; check the path");
  }
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw FileError(name, "cannot be read; check its permissions");
  const bool deep = is_deep_json(text.view());
  const Json json =
      deep ? Json(Json::value_t::discarded) : Json::parse(text.view(), nullptr, false);
  if (json.is_discarded())
    throw FileError(name, "is not valid JSON; choose a file saved by kvloupe");

  try {
    return session_of(name, json);
  } catch (const FieldError& error) {
    throw FileError(name, error.problem + "; correct the field or save the session again");
  }
}

WorkspaceState read_view(std::string_view text) {
  try {
    if (is_deep_json(text)) throw UsageError("the view is nested too deeply");
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) throw UsageError("the view is not valid JSON");
    if (!json.is_object()) throw UsageError("the view must be an object: {...}");
    const Reader fields(json, "");
    for (const char* own :
         {"trace", "theme", "colours", "scale", "patterns", "format", "format_version"}) {
      if (fields.find(own) != nullptr)
        Reader::fail(own, "is not allowed in a view; it belongs to the reader");
    }
    fields.only({"selection", "policy_a", "policy_b", "policy_b_on", "budget", "block",
                 "compression", "grid_metric", "grid_scale", "followed", "token_colour", "tiles",
                 "tile_count", "active_tile", "left_panel", "right_panel", "bottom_panel"});
    WorkspaceState s = default_state();
    if (const Json* tiles = fields.find("tiles"); tiles != nullptr && tiles->is_array()) {
      s.tile_count = std::clamp(static_cast<int>(tiles->size()), 1, kMaxTiles);
    }
    read_workspace(fields, s);
    return s;
  } catch (const FieldError& error) {
    throw UsageError(error.problem);
  }
}

void write_session(const WorkspaceState& state, const std::filesystem::path& path) {
  write_whole_file(path, session_text(state));
}

}  // namespace kvloupe::window
