#pragma once
// The values for the numbers and conditions of lessons: one catalogue.

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/trace/trace.h"
#include "app/lesson/expression.h"
#include "app/request/figure_service.h"
#include "app/session/state.h"

namespace kvloupe::lesson {

/// Keeps results that take long and that several values need: replays and the sinks of a trace.
/// Thread-safe, also with the window's or a gallery's replays.
class ValueStore {
 public:
  explicit ValueStore(
      std::shared_ptr<request::FigureService> figures = std::make_shared<request::FigureService>())
      : figures_(std::move(figures)) {}

  request::FigureService& figures() const { return *figures_; }
  const std::shared_ptr<request::FigureService>& shared_figures() const { return figures_; }
  figure::ReplayService& replays() const { return *figures_->replays(); }

  /// For token 0.
  struct Sinks {
    Matrix strengths;     // [L,Hq] mean attention from the later queries that see it
    Matrix value_ratios;  // [L,Hk] norm of its value over the median of all tokens'
    int heads = 0;        // query heads above kSinkHead
    int layer = 0;        // of the query head to look at: see strongest_sink()
    int query_head = 0;
  };
  std::shared_ptr<const Sinks> sinks(const Trace& trace, Progress& progress);

 private:
  struct Entry {
    std::string trace;
    std::shared_ptr<const Sinks> sinks;
  };
  std::shared_ptr<request::FigureService> figures_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the one used last at the end
};

/// The inputs of an expression.
struct LessonState {
  std::shared_ptr<const Trace> trace;
  std::vector<std::shared_ptr<const Trace>> closed;  // the lesson's closed-loop runs, in its order
  window::WorkspaceState workspace;                  // its selection in range of the trace
  bool playing = false;
  std::shared_ptr<ValueStore> store;
};

/// The kinds of arguments of a value. All but numbers are words in quotes.
enum class Argument { number, segment, measure, score, part, view, word };

/// One line of the catalogue.
struct ValueInfo {
  std::string name;
  std::vector<std::pair<Argument, std::string>> arguments = {};  // and what they are called
  std::string meaning;
  std::string needs = {};     // of the trace; empty: every trace has what it needs
  bool is_text = false;       // words instead of a number
  bool quick = false;         // only from the state and the trace's tables
  bool of_selection = false;  // changes with the layer, head, step or token selected
  Value (*compute)(const LessonState& state, std::span<const Value> arguments,
                   Progress& progress) = nullptr;
};

struct ValueGroup {
  std::string name;
  std::vector<ValueInfo> values;
};

/// Every value, in the order of the docs.
const std::vector<ValueGroup>& value_catalog();
/// Null for an unknown name.
const ValueInfo* find_value(std::string_view name);
/// Every name.
std::vector<std::string> value_names();

/// How to write it: kept(token), measure("measure").
std::string usage(const ValueInfo& info);

/// The catalogue as the table of docs/lessons.md.
std::string values_markdown();

}  // namespace kvloupe::lesson
