#include "app/lesson/value_groups.h"

#include <cmath>

#include "app/lesson/answer.h"

namespace kvloupe::lesson {

namespace {

/// 1 or 0; the needle is that of the lesson's trace, whose prompt a closed-loop run has too.
double right(const LessonState& s, const Trace& run) {
  const auto answer = is_right(answer_text(run), needle_number(s.trace->tokens()));
  return answer ? (*answer ? 1.0 : 0.0) : kNone;
}

/// The probability the model gave to a token, after those before it.
double probability(const Trace& trace, const Value& token) {
  const int t = index(token, trace.length());
  const auto predicted = trace.predictions();
  if (t < 1 || !predicted || static_cast<std::size_t>(t) > predicted->loss.size()) return kNone;
  return std::exp(-static_cast<double>(predicted->loss[static_cast<std::size_t>(t) - 1]));
}

double mean_loss(const Trace& trace) {
  const auto predicted = trace.predictions();
  const int count = trace.run().prompt_length - 1;  // nothing foretells the first
  if (count < 1 || !predicted || predicted->loss.size() < static_cast<std::size_t>(count))
    return kNone;
  double sum = 0.0;
  for (int t = 0; t < count; ++t)
    sum += static_cast<double>(predicted->loss[static_cast<std::size_t>(t)]);
  return sum / count;
}

}  // namespace

const Trace* closed_run(const LessonState& s, const Value& value) {
  const int at = index(value, static_cast<int>(s.closed.size()));
  return at < 0 ? nullptr : s.closed[static_cast<std::size_t>(at)].get();
}

ValueGroup answer_values() {
  ValueGroup group{"The model's answer", {}};
  const auto add = [&](ValueInfo info) { group.values.push_back(std::move(info)); };
  add({.name = "answer",
       .meaning = "what the model answers after the prompt: its first sentence, at most 16 words",
       .needs = "generated tokens or predictions",
       .is_text = true,
       .compute = computed([](In s) { return answer_text(*s.trace); })});
  add({.name = "answer_right",
       .meaning = "1 if the first number of the answer is the needle's",
       .needs = "the same and a segment needle",
       .compute = computed([](In s) { return right(s, *s.trace); })});
  add({.name = "closed_answer",
       .arguments = {{Argument::number, "run"}},
       .meaning = "the answer with a policy in the model's cache; the runs of the lines `closed:` "
                  "count from 0",
       .needs = "the closed-loop run",
       .is_text = true,
       .compute = of_closed_run([](In, const Trace& run) { return answer_text(run); })});
  add({.name = "closed_answer_right",
       .arguments = {{Argument::number, "run"}},
       .meaning = "1 if the first number of that answer is the needle's",
       .needs = "the closed-loop run and a segment needle",
       .compute = of_closed_run([](In s, const Trace& run) { return right(s, run); })});
  add({.name = "closed_runs",
       .meaning =
           "closed-loop runs that the lesson has here: those of its lines `closed:`, or those "
           "given with --trace",
       .quick = true,
       .compute = computed([](In s) { return s.closed.size(); })});
  add({.name = "closed_policy",
       .arguments = {{Argument::number, "run"}},
       .meaning = "the policy of such a run",
       .needs = "the closed-loop run",
       .is_text = true,
       .compute = of_closed_run([](In, const Trace& run) { return run.run().policy; })});
  add({.name = "closed_entries",
       .arguments = {{Argument::number, "run"}},
       .meaning = "its budget in entries of a head",
       .needs = "the closed-loop run",
       .compute = of_closed_run([](In, const Trace& run) { return run.run().budget; })});
  add({.name = "mean_loss",
       .meaning =
           "mean loss of the prompt's tokens in nats, each predicted from the tokens before it",
       .needs = "predictions",
       .compute = computed([](In s) { return mean_loss(*s.trace); })});
  add({.name = "closed_mean_loss",
       .arguments = {{Argument::number, "run"}},
       .meaning = "the same with a policy in the model's cache",
       .needs = "the closed-loop run with predictions",
       .compute = of_closed_run([](In, const Trace& run) { return mean_loss(run); })});
  add({.name = "probability",
       .arguments = {{Argument::number, "token"}},
       .meaning = "probability that the model gave the token after the tokens before it",
       .needs = "predictions",
       .compute = computed([](In s, Arguments a) { return probability(*s.trace, a[0]); })});
  return group;
}

}  // namespace kvloupe::lesson
