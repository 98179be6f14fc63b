#pragma once
// The values for the numbers and conditions of lessons: one catalogue.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/progress.h"
#include "analysis/trace/trace.h"
#include "app/lesson/expression.h"
#include "app/lesson/value_store.h"
#include "app/session/state.h"

namespace kvloupe::lesson {

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
