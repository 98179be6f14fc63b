// Every lesson that comes with the program, on the demo model's own trace: nothing is wrong with
// it, every number is known, every condition can be computed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "app/figure/text_metrics.h"
#include "app/job/assets.h"
#include "app/lesson/handout.h"
#include "app/lesson/page_view.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::lesson {
namespace {

using ::testing::IsEmpty;
namespace fs = std::filesystem;

/// The lesson's own traces, captured as `kvloupe lesson` would.
LessonTraces capture(const Lesson& lesson, const fs::path& folder) {
  const std::string program = std::string(KVLOUPE_BIN_DIR) + "/kvloupe-capture";
  const auto run = [&](const std::string& more, const std::string& name) {
    const fs::path target = folder / name;
    const std::string line =
        program + " run --model " + job::find_asset("demo-model").string() + " --prompt " +
        job::find_asset("prompts/" + lesson.run.prompt + ".txt").string() + " --generate " +
        std::to_string(lesson.run.generate) + " --block " + std::to_string(lesson.run.block) +
        " --progress none -o " + target.string() + more;
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    return std::make_shared<const Trace>(target);
  };
  LessonTraces traces;
  traces.trace = run("", "full.h5");
  for (const ClosedRun& closed : lesson.run.closed) {
    traces.closed.push_back(run(" --policy '" + closed.policy + "' --budget " + closed.budget,
                                "closed" + std::to_string(traces.closed.size()) + ".h5"));
  }
  return traces;
}

void expect_known(const RichText& text, const LessonState& state, const Lesson& lesson) {
  Progress progress;
  for (const Block& block : text) {
    for (const lesson::Run& run : block.runs) {
      if (!run.slot) continue;
      const Value value = evaluate(run.slot->expression, state, progress);
      const std::string where = at_line(lesson.path, run.slot->line, run.slot->expression.text());
      if (const double* number = std::get_if<double>(&value)) {
        EXPECT_TRUE(std::isfinite(*number)) << where << " is " << *number;
      } else {
        EXPECT_NE(std::get<std::string>(value), "") << where;
      }
    }
  }
}

void check(const Lesson& lesson) {
  SCOPED_TRACE(lesson.name);
  EXPECT_THAT(lesson.errors(), IsEmpty());
  EXPECT_FALSE(lesson.summary.empty());
  const test::TemporaryFolder folder;
  const LessonTraces traces = capture(lesson, folder.path());
  EXPECT_EQ(missing_need(lesson, traces), "");
  Progress progress;
  for (std::size_t i = 0; i < lesson.pages.size(); ++i) {
    const Page& page = lesson.pages[i];
    SCOPED_TRACE(page.title);
    const LessonState state = lesson_state(traces, page_workspace(lesson, i, traces, progress));
    expect_known(page.text, state, lesson);
    if (!page.task) continue;
    expect_known(page.task->text, state, lesson);
    const Value value = evaluate(page.task->when, state, progress);
    EXPECT_FALSE(std::isnan(std::get<double>(value))) << page.task->when.text();
  }
  const figure::TextMetrics fonts;
  const Handout handout = make_handout(lesson, traces, fonts, progress);
  EXPECT_THAT(handout.problems, IsEmpty());
  EXPECT_LT(handout.pdf.size(), std::size_t{20} << 20U);
}

TEST(Lessons, TheExampleHoldsOnTheDemoModel) {
  check(read_lesson(fs::path(KVLOUPE_SOURCE_DIR) / "tests/app/lessons/example.md"));
}

TEST(Lessons, EveryOneHoldsOnTheDemoModel) {
  const std::vector<Lesson> lessons = find_lessons();
  EXPECT_GE(lessons.size(), 8U);
  for (const Lesson& lesson : lessons) {
    check(lesson);
    EXPECT_GE(lesson.pages.size(), 5U) << lesson.name;
    EXPECT_LE(lesson.pages.size(), 9U) << lesson.name;
  }
}

}  // namespace
}  // namespace kvloupe::lesson
