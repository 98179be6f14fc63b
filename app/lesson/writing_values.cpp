#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "analysis/base/text/text.h"
#include "analysis/trace/given_tokens.h"
#include "analysis/trace/loops.h"
#include "app/lesson/value_groups.h"

namespace kvloupe::lesson {

namespace {

std::string beginning(std::string text) {
  constexpr std::size_t kMostCharacters = 110;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return in_one_line(text, kMostCharacters);
}

/// The first tokens that stand after the prompt, or that a loop repeats.
std::string text_from(const Trace& trace, int first, int end) {
  const std::vector<std::string>& texts = trace.tokens().text;
  std::string joined;
  for (int i = first; i < end && i < static_cast<int>(texts.size()); ++i)
    joined += texts[static_cast<std::size_t>(i)];
  return beginning(std::move(joined));
}

std::string written(const Trace& trace) {
  return text_from(trace, trace.run().prompt_length, trace.length());
}

Loops loops_of(const Trace& trace) {
  return find_loops(trace.tokens().ids, trace.run().prompt_length);
}

double loop_share(const Trace& trace) {
  return trace.run().generated > 0 ? loops_of(trace).share() : kNone;
}

/// Generated tokens before the first loop.
double before_loop(const Trace& trace) {
  const Loops loops = loops_of(trace);
  return loops.spans.empty() ? kNone : loops.spans.front().first - trace.run().prompt_length;
}

std::string loop_text(const Trace& trace) {
  const Loops loops = loops_of(trace);
  if (loops.spans.empty()) return {};
  const Loop& first = loops.spans.front();
  return text_from(trace, first.first, first.first + first.length);
}

/// Generated tokens of a run before the first that differs from the full cache's. Tokens that were
/// given to the model do not count.
double same_words(const LessonState& s, const Trace& run) {
  const int prompt = s.trace->run().prompt_length;
  if (run.run().prompt_length != prompt || !given_tokens(run).range.empty()) return kNone;
  const std::vector<std::int32_t>& full = s.trace->tokens().ids;
  const std::vector<std::int32_t>& own = run.tokens().ids;
  const auto end = static_cast<std::ptrdiff_t>(std::min(full.size(), own.size()));
  return static_cast<double>(
      std::mismatch(full.begin() + prompt, full.begin() + end, own.begin() + prompt).first -
      (full.begin() + prompt));
}

/// The text of a run from its first differing token on; the whole text if no token differs.
std::string own_words(const LessonState& s, const Trace& run) {
  if (const GivenTokens given = given_tokens(run); !given.range.empty())
    return beginning(given.own_text);
  const double same = same_words(s, run);
  const int first = run.run().prompt_length + (std::isnan(same) ? 0 : static_cast<int>(same));
  return first < run.length() ? text_from(run, first, run.length()) : written(run);
}

}  // namespace

ValueGroup writing_values() {
  ValueGroup group{"What the model writes", {}};
  const auto add = [&](ValueInfo info) {
    info.quick = true;
    group.values.push_back(std::move(info));
  };
  add({.name = "written",
       .meaning = "the beginning of what stands after the prompt",
       .needs = "generated tokens",
       .is_text = true,
       .compute = computed([](In s) { return written(*s.trace); })});
  add({.name = "loop_share",
       .meaning = "share of the generated tokens that are part of a loop: a span that follows "
                  "itself three times or more",
       .needs = "generated tokens",
       .compute = computed([](In s) { return loop_share(*s.trace); })});
  add({.name = "closed_written",
       .arguments = {{Argument::number, "run"}},
       .meaning = "what a closed-loop run of a line `writes:` writes from the first token on that "
                  "differs from the full cache's; from the prompt on where none differs",
       .needs = "the closed-loop run",
       .is_text = true,
       .compute = of_closed_run([](In s, const Trace& run) { return own_words(s, run); })});
  add({.name = "closed_same",
       .arguments = {{Argument::number, "run"}},
       .meaning = "generated tokens of a closed-loop run before the first that differs from the "
                  "full cache's",
       .needs = "the closed-loop run of the same prompt",
       .compute = of_closed_run([](In s, const Trace& run) { return same_words(s, run); })});
  add({.name = "closed_loop_share",
       .arguments = {{Argument::number, "run"}},
       .meaning = "share of the run's generated tokens that are part of a loop",
       .needs = "the closed-loop run",
       .compute = of_closed_run([](In, const Trace& run) { return loop_share(run); })});
  add({.name = "closed_loop_begins",
       .arguments = {{Argument::number, "run"}},
       .meaning = "generated tokens before the run's first loop",
       .needs = "a loop in the closed-loop run",
       .compute = of_closed_run([](In, const Trace& run) { return before_loop(run); })});
  add({.name = "closed_loop_text",
       .arguments = {{Argument::number, "run"}},
       .meaning = "what the run's first loop repeats",
       .needs = "a loop in the closed-loop run",
       .is_text = true,
       .compute = of_closed_run([](In, const Trace& run) { return loop_text(run); })});
  return group;
}

}  // namespace kvloupe::lesson
