#pragma once
// The groups of the catalogue of values, one file each, and their common parts.

#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "analysis/replay/replay.h"
#include "app/lesson/values.h"

namespace kvloupe::lesson {

using In = const LessonState&;
using Arguments = std::span<const Value>;

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

inline double number(const Value& value) { return std::get<double>(value); }
inline const std::string& word(const Value& value) { return std::get<std::string>(value); }

/// The catalogue's function from one of the state, and of its arguments and a progress where it has
/// them. It captures nothing; a count becomes a number, a truth 1 or 0.
template <typename Function>
constexpr auto computed(Function) {
  return [](const LessonState& s, Arguments arguments, Progress& progress) -> Value {
    const auto result = [&] {
      if constexpr (std::is_invocable_v<Function, const LessonState&>) {
        return Function{}(s);
      } else if constexpr (std::is_invocable_v<Function, const LessonState&, Arguments>) {
        return Function{}(s, arguments);
      } else {
        return Function{}(s, arguments, progress);
      }
    }();
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(result)>>) {
      return static_cast<double>(result);
    } else {
      return result;
    }
  };
}

/// An index below `end`, or −1 for an invalid one.
int index(const Value& value, int end);

/// The middle value; the mean of the two middle ones where their count is even. NaN of nothing.
double median(std::vector<double> values);

/// The steps of the state's trace and block size.
std::vector<kvloupe::Block> blocks_of(const LessonState& s);
/// The step shown: the one chosen, else the last of the prompt.
int step_of(const LessonState& s, const std::vector<kvloupe::Block>& blocks);

/// The closed-loop run with this number; null where there is none.
const Trace* closed_run(const LessonState& s, const Value& value);

/// The catalogue's function from one of the state and the closed-loop run that the first argument
/// counts; unknown, or an empty text, where there is no such run.
template <typename Function>
constexpr auto of_closed_run(Function) {
  return computed([](In s, Arguments arguments) {
    using Result = std::invoke_result_t<Function, In, const Trace&>;
    const Trace* run = closed_run(s, arguments[0]);
    if constexpr (std::is_arithmetic_v<Result>) {
      return run != nullptr ? static_cast<double>(Function{}(s, *run)) : kNone;
    } else {
      return run != nullptr ? Function{}(s, *run) : Result();
    }
  });
}

ValueGroup trace_values();
ValueGroup sink_values();
ValueGroup state_values();
ValueGroup result_values();
ValueGroup head_values();
ValueGroup reader_values();
ValueGroup answer_values();
ValueGroup writing_values();

}  // namespace kvloupe::lesson
