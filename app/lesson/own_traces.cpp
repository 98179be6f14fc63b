#include "app/lesson/own_traces.h"

#include <memory>
#include <utility>

namespace kvloupe::lesson {

std::vector<demo::DemoRun> own_runs(const Lesson& lesson) {
  const LessonRun& run = lesson.run;
  std::vector<demo::DemoRun> runs = {
      {.prompt = run.prompt, .generate = run.generate, .block = run.block}};
  for (const ClosedRun& closed : run.closed) {
    runs.push_back(runs.front());
    runs.back().policy = closed.policy;
    runs.back().budget = closed.budget;
    runs.back().own_words = closed.own_words;
  }
  return runs;
}

LessonTraces own_traces(const Lesson& lesson, Progress& progress) {
  constexpr long kParts = 1000;  // of one run
  const std::vector<demo::DemoRun> runs = own_runs(lesson);
  progress.set_total(kParts * static_cast<long>(runs.size()));
  LessonTraces traces;
  for (const demo::DemoRun& run : runs) {
    Progress part(progress, kParts);
    auto trace = std::make_shared<const Trace>(demo::demo_trace(run, part));
    part.finish();
    if (traces.trace) {
      traces.closed.push_back(std::move(trace));
    } else {
      traces.trace = std::move(trace);
    }
  }
  return traces;
}

}  // namespace kvloupe::lesson
