// Every lesson that comes with the program, on the demo model's own trace: nothing is wrong with
// it, every number is known, every condition can be computed.

#include "analysis/trace/segments.h"
#include "app/lesson/page_view.h"
#include "app/lesson/written_lesson.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::lesson {
namespace {

/// The lesson's own traces, captured as `kvloupe lesson` does, but into this folder.
LessonTraces capture(const Lesson& lesson, const fs::path& folder) {
  demo::DemoPlaces places{.assets = fs::path(KVLOUPE_SOURCE_DIR) / "assets",
                          .cache = folder,
                          .program = std::string(KVLOUPE_BIN_DIR) + "/kvloupe-capture"};
  LessonTraces traces;
  for (const demo::DemoRun& run : own_runs(lesson)) {
    auto trace = std::make_shared<const Trace>(demo::demo_trace(run, test::unwatched, places));
    if (traces.trace) {
      traces.closed.push_back(std::move(trace));
    } else {
      traces.trace = std::move(trace);
    }
  }
  return traces;
}

void expect_known(const RichText& text, const LessonState& state, const Lesson& lesson) {
  for (const Block& block : text) {
    for (const lesson::Run& run : block.runs) {
      if (!run.slot) continue;
      const Value value = evaluate(run.slot->expression, state, test::unwatched);
      const std::string where = at_line(lesson.path, run.slot->line, run.slot->expression.text());
      if (const double* number = std::get_if<double>(&value)) {
        EXPECT_TRUE(std::isfinite(*number)) << where << " is " << *number;
      } else {
        EXPECT_NE(std::get<std::string>(value), "") << where;
      }
    }
  }
}

/// A text on paper begins where its range does, and has room for some 300 tokens.
void expect_needle_in_sight(const Page& page, const LessonState& state) {
  const auto of_needle = [](const lesson::Run& run) {
    return (run.slot ? run.slot->expression.text() : run.text).find("needle") != std::string::npos;
  };
  const auto speaks_of_it = [&](const Block& block) {
    return std::any_of(block.runs.begin(), block.runs.end(), of_needle);
  };
  if (std::none_of(page.text.begin(), page.text.end(), speaks_of_it)) return;
  const TokenRange needle = segment_range(state.trace->tokens(), "needle");
  for (const PageFigure& figure : page_figures(state.workspace)) {
    if (figure.info->name != "tokens" || needle.empty()) continue;
    const int first = state.workspace.selection.first_token;
    EXPECT_LE(first, needle.first);
    EXPECT_GT(first, needle.first - 150);
    EXPECT_GE(state.workspace.selection.last_token, needle.end);
  }
}

void check(const Lesson& lesson, const fs::path& cache) {
  SCOPED_TRACE(lesson.name);
  EXPECT_THAT(lesson.errors(), IsEmpty());
  EXPECT_FALSE(lesson.summary.empty());
  const LessonTraces traces = capture(lesson, cache);
  EXPECT_EQ(missing_need(lesson, traces), "");
  for (std::size_t i = 0; i < lesson.pages.size(); ++i) {
    const Page& page = lesson.pages[i];
    SCOPED_TRACE(page.title);
    const LessonState state =
        lesson_state(traces, page_workspace(lesson, i, traces, test::unwatched));
    expect_known(page.text, state, lesson);
    expect_needle_in_sight(page, state);
    if (!page.task) continue;
    expect_known(page.task->text, state, lesson);
    const Value value = evaluate(page.task->when, state, test::unwatched);
    EXPECT_FALSE(std::isnan(std::get<double>(value))) << page.task->when.text();
  }
  const WrittenLesson handout = make_handout(lesson, traces, test::fonts(), test::unwatched);
  EXPECT_THAT(handout.problems, IsEmpty());
  EXPECT_LT(handout.bytes.size(), std::size_t{20} << 20U);
}

TEST(LessonFiles, TheExampleHoldsOnTheDemoModel) {
  const test::TemporaryFolder cache;
  check(read_lesson(fs::path(KVLOUPE_SOURCE_DIR) / "tests/app/lessons/example.md"), cache.path());
}

TEST(LessonFiles, EveryOneHoldsOnTheDemoModel) {
  const fs::path folder = fs::path(KVLOUPE_SOURCE_DIR) / "assets/lessons";
  if (!fs::exists(folder)) GTEST_SKIP() << "there are no lessons in assets/lessons";
  const std::vector<Lesson> lessons = find_lessons(folder);
  EXPECT_GE(lessons.size(), 8U);
  const test::TemporaryFolder cache;
  for (const Lesson& lesson : lessons) {
    check(lesson, cache.path());
    EXPECT_GE(lesson.pages.size(), 5U) << lesson.name;
    EXPECT_LE(lesson.pages.size(), 9U) << lesson.name;
  }
}

}  // namespace
}  // namespace kvloupe::lesson
