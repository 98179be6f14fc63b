#pragma once
// The actions that a panel asks of the window. A panel draws, changes the state by its controls,
// and lists other requests. The window carries them out after the panel is drawn.

#include <imgui.h>

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "analysis/math/sink.h"
#include "analysis/trace/trace.h"
#include "app/session/state.h"
#include "app/window/state/results.h"
#include "app/window/widgets/commands.h"

namespace kvloupe::window {

/// A trace, a session or results of an evaluation or a study, by its path.
struct OpenFile {
  std::string path;
};
/// A trace that is open already. The head is selected first; without one, one in the middle.
struct ShowTrace {
  TracePointer trace;
  std::optional<HeadIndex> head = std::nullopt;
};
/// Another view of the open trace; its selection is in range.
struct TakeState {
  WorkspaceState state;
};
struct OpenLesson {
  std::string name;
};
/// In the active tile.
struct ShowView {
  std::string name;
};
/// As policy A or B; B is switched on.
struct TakePolicy {
  PolicySide side = PolicySide::a;
  PolicySpec policy;
};
/// The card of the selected token, at a place in pixels.
struct ExplainToken {
  ImVec2 at;
};
/// The runs of an evaluation's cell, by the first of them, or an item of a study; at a place in
/// pixels.
struct ExplainRun {
  std::shared_ptr<const Evaluation> evaluation;
  int run = -1;
  ImVec2 at;
};
/// The list of views for a tile, at a place in pixels.
struct ChooseView {
  std::size_t tile = 0;
  ImVec2 at;
};
/// The list of measures of the grid, at a place in pixels.
struct ChooseMeasure {
  ImVec2 at;
};
struct ShowInGrid {
  std::string measure;  // of overview_measures()
};
/// The list of modifiers for policy A or B, at a place in pixels.
struct ChooseModifier {
  PolicySide side = PolicySide::a;
  ImVec2 at;
};
/// With its defaults; where it needs more, the policy's line is prepared for typing.
struct AddModifier {
  PolicySide side = PolicySide::a;
  std::string name;
};
/// One line for the user.
struct Say {
  std::string line;
  bool is_error = false;
};

using Action = std::variant<Command, OpenFile, ShowTrace, TakeState, OpenLesson, ShowView,
                            TakePolicy, ExplainToken, ExplainRun, ChooseView, ChooseMeasure,
                            ShowInGrid, ChooseModifier, AddModifier, Say>;
using Actions = std::vector<Action>;

}  // namespace kvloupe::window
