#pragma once
// A figure has two stages: `compute` reads the trace and may take long (cancellable, safe on a
// worker thread); its result draws itself fast, again and again, at any size, range and theme, for
// the screen and for export alike. A figure is one file in app/figure/figures/ and one line in
// app/figure/figures/figures.h.

#include <array>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/base/text/table.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"
#include "app/figure/choice.h"
#include "app/figure/replay_service.h"
#include "app/scene/scene.h"
#include "app/scene/style.h"

namespace kvloupe {
struct Evaluation;  // analysis/evaluation/evaluation.h
}

namespace kvloupe::figure {

using kvloupe::CsvWriter;
using kvloupe::Table;

/// The selection; shared by all figures, so that views stay linked. Each figure reads the fields
/// that it needs. All are in range after resolve() of figure_catalog.h.
struct Selection {
  int layer = 0;
  int head = 0;         // key-value head
  int query_head = -1;  // −1: mean over the head's group
  int step = -1;        // −1: the last step of the prompt
  int first_token = 0;  // the range shown, both included
  int last_token = -1;  // −1: the last
  int token = -1;       // the one looked at; −1: none in particular
  bool operator==(const Selection&) const = default;
};

class Figure;
struct FigureInfo;

/// Everything a figure is computed from. The replays are there where the figure's needs say so;
/// comparisons make more of their own (comparison.h).
struct FigureInput {
  const FigureInfo* info = nullptr;                  // of the figure itself
  std::shared_ptr<const Trace> trace;                // the first of `traces`
  std::vector<std::shared_ptr<const Trace>> traces;  // as many as the figure's needs allow
  std::shared_ptr<const Evaluation> evaluation;      // where needs.evaluation, and then no trace
  std::shared_ptr<const Replay> policy_a;            // of `trace`
  std::shared_ptr<const Replay> policy_b;            // optional, but where needs.policy_b
  Selection selection;
  Choices choices;
  /// The selected policies and budget, for replays of the figure's own.
  PolicySpec spec_a;
  std::optional<PolicySpec> spec_b;
  Budget budget;
  int block = 0;                           // 0: the capture's
  std::optional<Compression> compression;  // none: the capture's
  std::shared_ptr<ReplayService> replays;
  /// Whether a replay here is only a part, while the rest is computed. If a figure cannot show a
  /// part, its `compute` returns nullptr.
  bool partial = false;
  /// The picture shown until the whole figure is there: a part may take missing data from it.
  std::shared_ptr<const Figure> shown;
  /// Takes the figure so far, if a viewer watches: from any thread, one at a time.
  std::function<void(std::shared_ptr<const Figure>)> on_part;

  /// The value of one of the figure's choices, or its default.
  const std::string& choice(std::string_view name) const;
};

/// Ranges of the axes of values of one panel.
struct PanelLimits {
  std::optional<std::pair<double, double>> x, y;
  bool operator==(const PanelLimits&) const = default;
};

/// How to draw a computed figure.
struct DrawRequest {
  Style style;
  double width = 241.0;  // points; 85 mm
  double height = 200.0;
  /// Visible data ranges of the main axes, for zooming; absent: all.
  std::optional<std::pair<double, double>> x_range = {};
  std::optional<std::pair<double, double>> y_range = {};
  /// Limits of the colour bar; absent: the figure's own.
  std::optional<std::pair<double, double>> limits = {};
  /// Limits of the panels in their order, if there are as many: pictures side by side can be
  /// compared. Figures of curves and distributions take them; empty: the figure's own.
  std::vector<PanelLimits> panels = {};
  double pixels_per_point = 300.0 / 72.0;  // resolution of maps
  bool legend = true;
};

/// A computed figure: plain numbers, no file.
class Figure {
 public:
  virtual ~Figure() = default;
  /// Fast; pure. The scene is exactly width × height points.
  virtual Scene draw(const DrawRequest& request) const = 0;
  /// The height that suits the request's width best, in points; 0: any, by the catalogue's aspect.
  virtual double natural_height(const DrawRequest& /*request*/) const { return 0.0; }
  /// The numbers behind the picture: the rows that were added, if the figure has no others.
  virtual void write_csv(CsvWriter& csv) const { csv.text(rows_); }
  /// The numbers as a table for a paper, where the figure is one: a row and a column for each name.
  virtual std::optional<Table> table() const { return std::nullopt; }
  /// The exact value at a place, for the read-out beside the pointer, e.g. "cos 0.123": a cell of a
  /// map, a token's score. Empty where the figure has none there. Fast: called on every frame. What
  /// was said of the place, if the figure says nothing else.
  virtual std::string value_text(const Target& target) const;
  /// One sentence for under the figure: the content in words, with its legend.
  virtual std::string caption() const { return caption_text; }

  std::string caption_text = {};

  // While it is computed:
  /// Adds a row to the numbers; the first has the names of the columns.
  void add_row(std::initializer_list<CsvWriter::Cell> cells);
  /// Says this of all places with the fields that `of` has, after what was said of them before.
  void say(const Target& of, const std::string& text, const char* between = ", ");

 protected:
  bool has_rows() const { return !rows_.empty(); }

 private:
  using Fields = std::array<int, 7>;
  static Fields fields_of(const Target& target);
  std::string rows_;
  std::map<Fields, std::string> texts_;
  std::set<Fields> given_;  // which fields have a text of their own: 0; −1: any value
};

/// The inputs that a figure needs besides the trace.
struct Needs {
  bool head = false;        // looks at one head
  bool step = false;        // looks at one step
  bool tokens = false;      // a token range can be chosen
  bool token = false;       // looks at one token
  bool policy = false;      // policy A's replay
  bool all_layers = false;  // of all layers, not only the selected one
  bool scores = false;      // with the selected head's scores
  bool policy_b = false;    // policy B's replay too: the figure says nothing without
  bool beside = false;      // policy B beside A where one is selected; a list names it itself
  bool comparison = false;  // makes replays of its own: of other policies, budgets, blocks, traces
  int fewest_traces = 1;
  int most_traces = 1;
  /// The two traces are a run with the full cache and a closed-loop run of its tokens, in any
  /// order.
  bool both_loops = false;
  /// Made from the results of kvloupe-capture eval or rescue, and from no trace.
  bool evaluation = false;
  bool evaluated_budget = false;  // of their budgets it shows one, the nearest to the one chosen

  /// Replays of the selected policies.
  bool replay() const { return policy || policy_b; }
  /// The selected policies: A, and B where there is one; with their block.
  bool policies() const { return replay() || comparison; }
  bool budget() const { return policies() || evaluated_budget; }
  /// Shows A, B or both, as one likes.
  bool side() const { return policies() && !policy_b; }
  /// Steps are counted with the block, not as the trace was captured.
  bool steps_of_replay() const { return policies() || step; }
  /// Makes replays of its own, or compares traces: takes longer than a picture may.
  bool slow() const { return comparison || both_loops; }
};

/// Which axes of a figure the wheel and the pointer move in the window.
enum class Zoom {
  none,
  x,       // tokens along x only
  both,    // each axis for itself
  linked,  // the same range on both: token by token
};

using Compute = std::unique_ptr<const Figure> (*)(const FigureInput& input, Progress& progress);

/// Widths on paper, millimetres.
inline constexpr double kColumn = 85.0, kTwoColumns = 178.0;

/// All there is to say of a figure, in one place: its words in lists, its needs, and its maker.
struct FigureInfo {
  std::string name;     // of --figure
  std::string title;    // of the view
  std::string tooltip;  // formula and source
  Topic topic = Topic::kept;
  /// Reads and computes. Throws Cancelled through progress.
  Compute compute = nullptr;
  double width_mm = kColumn;  // default width on paper
  double aspect = 1.0;        // default width / height
  Zoom zoom = Zoom::none;
  bool limits = false;  // has a colour bar whose limits can be dragged
  Needs needs = {};     // with the default choices
  /// The needs with these choices; nullptr: always the same.
  Needs (*needs_with)(const Choices& choices) = nullptr;
  std::vector<ChoiceInfo> choices = {};
  /// Whether a setting has a part in the picture with these choices: one of the choices, "budget"
  /// or "block". A setting that has none is not listed under the figure. nullptr: all have.
  bool (*shows)(std::string_view setting, const Choices& choices) = nullptr;
  /// Why the figure cannot be drawn from this trace; empty where it can.
  std::string (*unavailable)(const Trace& trace) = [](const Trace&) { return std::string(); };
  /// Why these results cannot be shown, where needs.evaluation; empty where they can.
  std::string (*unfit)(const Evaluation& evaluation) = nullptr;
};

/// One with these, and no needs or choices yet.
FigureInfo figure_info(std::string name, std::string title, std::string tooltip, Topic topic,
                       Compute compute, double width_mm = kColumn, double aspect = 1.0);

/// A computed figure, with the settings it was made from in words: trace, model, policy, ...
struct MadeFigure {
  std::shared_ptr<const Figure> figure;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::shared_ptr<const Trace>> traces;  // none where made from an evaluation
  std::vector<Block> steps;                          // of the replay it shows; may be empty
  bool complete = true;  // false: made from replays that were still under way
};

/// The figure's needs with these choices.
inline Needs needs_of(const FigureInfo& info, const Choices& choices) {
  return info.needs_with != nullptr ? info.needs_with(choices) : info.needs;
}

/// The value of a choice, or its default. Throws UsageError for an unknown value. comparison.h
/// interprets typed lists.
const std::string& choice(const FigureInfo& info, const Choices& choices, std::string_view name);

inline const std::string& FigureInput::choice(std::string_view name) const {
  return figure::choice(*info, choices, name);
}

}  // namespace kvloupe::figure
