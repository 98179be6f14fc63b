#pragma once
// The state that the window shows, without anything computed from it: the contents of a session
// file.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/math/sink.h"
#include "analysis/policy/published.h"
#include "app/figure/figure.h"
#include "app/scene/colour_map.h"
#include "app/scene/style.h"

namespace kvloupe::window {

/// The window's and its figures'.
using Theme = figure::Theme;

/// The object under the pointer in this frame; every view marks it.
struct Hover {
  int token = -1;
  int other_token = -1;  // the query, where `token` is the key
  int step = -1;
  int layer = -1, head = -1;  // both or none: of a curve, a dot or a cell
  bool operator==(const Hover&) const = default;
};

/// Which policy a tile looks at: both where its figure can show two, or one alone.
enum class PolicySide { both, a, b };

/// One tile: which figure, its own choices, what part of it is in sight.
struct TileState {
  std::string view = {};
  figure::Choices choices = {};
  PolicySide side = PolicySide::both;
  std::optional<std::pair<double, double>> x_range = std::nullopt;
  std::optional<std::pair<double, double>> y_range = std::nullopt;
  std::optional<std::pair<double, double>> limits = std::nullopt;
  std::optional<HeadIndex> pinned = std::nullopt;  // shows this head, whichever is selected
  bool operator==(const TileState&) const = default;
};

/// What the replays of the window are made of.
struct ReplayInputs {
  PolicySpec policy_a = parse_policy("keydiff");
  PolicySpec policy_b = parse_policy(published_spec("h2o"));
  bool policy_b_on = false;
  Budget budget{Percent{25.0}};
  int block = 0;                           // 0: the capture's own
  std::optional<Compression> compression;  // none: the capture's own
  bool operator==(const ReplayInputs&) const = default;
};

struct WorkspaceState : ReplayInputs {
  std::string trace;                    // path; empty: none
  figure::Selection selection;          // all views share it
  std::string grid_measure = "change";  // that the grid shows, of those of the figure overview
  std::string grid_scale = "auto";      // of its colours: auto, linear, log or relative
  std::string followed = "auto";        // tokens: "120-131", a segment's name, or auto
  std::string token_colour = "fate";    // fate, score, heads, difference or none
  std::vector<TileState> tiles;         // always four; the first `tile_count` are shown
  int tile_count = 1;
  int active_tile = 0;
  Theme theme = Theme::light;
  figure::AmountMap amounts = figure::AmountMap::viridis;
  std::optional<bool> patterns;  // beside the colours of fates; none: as the theme has it
  double scale = 1.0;
  bool left_panel = true;
  bool right_panel = true;
  bool bottom_panel = true;
  bool operator==(const WorkspaceState&) const = default;
};

/// Whether patterns are drawn in addition to the colours of fates.
inline bool shows_patterns(const WorkspaceState& state) {
  return state.patterns.value_or(figure::has_patterns(state.theme));
}

constexpr int kMaxTiles = 4;
constexpr double kMinScale = 0.75;
constexpr double kMaxScale = 3.0;

}  // namespace kvloupe::window
