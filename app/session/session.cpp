#include "app/session/session.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/read_file.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/view_catalog.h"

namespace kvloupe::window {

namespace {

using Json = JsonFields::Json;

constexpr std::string_view kFormat = "kvloupe-session";
constexpr int kVersion = 1;
constexpr std::uintmax_t kMaxBytes = 1 << 20;
constexpr int kMost = 1 << 30;

/// Words that are the values themselves.
JsonFields::Words<std::string> words(std::initializer_list<const char*> all) {
  JsonFields::Words<std::string> pairs;
  for (const char* word : all) pairs.emplace_back(word, word);
  return pairs;
}

/// Measures by their words in sessions, and by their names.
JsonFields::Words<std::string> measure_words() {
  JsonFields::Words<std::string> pairs;
  for (const figure::OverviewMeasure& one : figure::overview_measures()) {
    for (const std::string& word : {one.session_word(), one.name})
      if (!word.empty()) pairs.emplace_back(word, one.name);
  }
  return pairs;
}

void describe_tile(JsonFields& f, TileState& tile) {
  f("view", tile.view);
  const figure::FigureInfo* view = find_view(tile.view);
  if (!view) f.fail("view", "\"" + tile.view + "\" is not a view");
  f.either("choices", tile.choices, [&](const Json& choices) {
    if (!choices.is_object()) f.fail("choices", "must be an object");
    tile.choices.clear();
    for (const auto& [key, value] : choices.items()) {
      if (!value.is_string()) f.fail("choices", "must contain only texts");
      tile.choices[key] = value.get<std::string>();
    }
    try {
      figure::check_choices(*view, tile.choices);
    } catch (const UsageError& error) {
      f.fail("choices", std::string("are not valid: ") + error.what());
    }
  });
  f.word("policy", tile.side,
         {{"both", PolicySide::both}, {"A", PolicySide::a}, {"B", PolicySide::b}});
  f("x_range", tile.x_range);
  f("y_range", tile.y_range);
  f("limits", tile.limits);
  if (f.reads()) tile.pinned.reset();
  if (!f.has("pinned") && !tile.pinned) return;
  f.object("pinned", [&](JsonFields& head) {
    if (!tile.pinned) tile.pinned.emplace();
    head("layer", tile.pinned->layer, 0, kMost);
    head("head", tile.pinned->head, 0, kMost);
  });
}

/// The tiles that the list has; the others stay.
void describe_tiles(JsonFields& f, std::vector<TileState>& tiles) {
  Json written;
  for (std::size_t i = 0; !f.reads() && i < tiles.size(); ++i) {
    JsonFields tile(written.emplace_back());
    describe_tile(tile, tiles[i]);
  }
  f.either("tiles", written, [&](const Json& list) {
    if (!list.is_array() || list.size() > kMaxTiles) f.fail("tiles", "must be a list of at most 4");
    for (std::size_t i = 0; i < list.size(); ++i) {
      JsonFields tile(list[i], "tiles[" + std::to_string(i) + "]");
      describe_tile(tile, tiles[i]);
      tile.only_these();
    }
  });
}

/// A value that has a text(), which `parse` reads.
template <class Value, class Parse>
void describe(JsonFields& f, const char* field, Value& value, const Parse& parse) {
  std::string text = value.text();
  f(field, text);
  if (!f.reads()) return;
  try {
    value = parse(text);
  } catch (const UsageError& problem) {
    f.fail(field, std::string("is not valid: ") + problem.what());
  }
}

/// The fields of a session in the order of its file; without `whole`, those of a page of a lesson.
void describe(JsonFields& f, WorkspaceState& s, bool whole) {
  if (whole) f("trace", s.trace);
  f.object("selection", [&at = s.selection](JsonFields& selection) {
    selection("layer", at.layer, 0, kMost);
    selection("head", at.head, 0, kMost);
    selection("query_head", at.query_head, -1, kMost);
    selection("step", at.step, -1, kMost);
    selection("token", at.token, -1, kMost);
    selection("first_token", at.first_token, 0, kMost);
    selection("last_token", at.last_token, -1, kMost);
  });
  describe(f, "policy_a", s.policy_a, parse_policy);
  describe(f, "policy_b", s.policy_b, parse_policy);
  f("policy_b_on", s.policy_b_on);
  describe(f, "budget", s.budget, parse_entries_budget);
  f("block", s.block, 0, kMost);
  f.word("compression", s.compression,
         {{"", std::nullopt},
          {"regular", Compression::regular},
          {"context-only", Compression::context_only}});
  f.word("grid_metric", s.grid_measure, measure_words());
  f.word("grid_scale", s.grid_scale, words({"auto", "linear", "log", "relative"}));
  f.word("token_colour", s.token_colour, words({"fate", "score", "heads", "difference", "none"}));
  describe_tiles(f, s.tiles);
  f("tile_count", s.tile_count, 1, kMaxTiles);
  f("active_tile", s.active_tile, 0, s.tile_count - 1);
  if (whole) {
    f.word("theme", s.theme, theme_words());
    f.word("colours", s.amounts, amount_words());
    f("scale", s.scale, kMinScale, kMaxScale);
  }
  f("left_panel", s.left_panel);
  f("right_panel", s.right_panel);
  f("bottom_panel", s.bottom_panel);
  // Programs from before do not know these fields: only who uses them writes them.
  if (whole) f("patterns", s.patterns);
  if (f.reads() || s.followed != default_state().followed) f("followed", s.followed);
}

/// A whole session file's content. Throws FieldError; FileError for another format or version.
WorkspaceState session_of(const std::string& name, const Json& json) {
  JsonFields root(json, "");
  std::string format;
  root("format", format);
  if (format != kFormat) throw FileError(name, "is not a kvloupe session; choose another file");
  int version = 0;
  root("format_version", version, 1, kMost);
  if (version == 0) root.fail("format_version", "is missing");
  if (version > kVersion) {
    throw FileError(name, "is of the newer format version " + std::to_string(version) +
                              "; use a newer kvloupe");
  }
  WorkspaceState s = default_state();
  describe(root, s, true);
  root.only_these();
  return s;
}

}  // namespace

JsonFields::Words<Theme> theme_words() {
  JsonFields::Words<Theme> words;
  for (const Theme theme : figure::kThemes) words.emplace_back(theme_name(theme), theme);
  return words;
}

JsonFields::Words<figure::AmountMap> amount_words() {
  using figure::AmountMap;
  return {
      {"viridis", AmountMap::viridis}, {"cividis", AmountMap::cividis}, {"grey", AmountMap::grey}};
}

std::string session_text(WorkspaceState s) {
  Json json;
  JsonFields root(json);
  json["format"] = kFormat;
  json["format_version"] = kVersion;
  describe(root, s, true);
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
    JsonFields fields(json, "");
    for (const char* own :
         {"trace", "theme", "colours", "scale", "patterns", "format", "format_version"}) {
      if (json.contains(own))
        fields.fail(own, "is not allowed in a view; it belongs to the reader");
    }
    WorkspaceState s = default_state();
    if (const auto tiles = json.find("tiles"); tiles != json.end() && tiles->is_array())
      s.tile_count = std::clamp(static_cast<int>(tiles->size()), 1, kMaxTiles);
    describe(fields, s, false);
    fields.only_these();
    return s;
  } catch (const FieldError& error) {
    throw UsageError(error.problem);
  }
}

void write_session(const WorkspaceState& state, const std::filesystem::path& path) {
  write_whole_file(path, session_text(state));
}

}  // namespace kvloupe::window
