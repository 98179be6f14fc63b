// The lessons that come with the program, on traces of other shapes than the demo's: every page
// opens and its figures are made, or the lesson says in one line what it needs.

#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/lesson/written_lesson.h"
#include "tests/support/kinds_trace.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::lesson {
namespace {

using testing::UnorderedElementsAre;

const fs::path kLessons = fs::path(KVLOUPE_SOURCE_DIR) / "assets/lessons";

struct Shape {
  test::SyntheticTraceOptions options;
  int needle = 0;  // first of five tokens; 0: none
  int closed = 0;  // closed-loop runs
};

LessonTraces traces_of(const Shape& shape, const fs::path& folder) {
  LessonTraces traces;
  const fs::path full = folder / "full.h5";
  test::write_synthetic_trace(full, shape.options);
  if (shape.needle > 0) {
    std::vector<std::string> texts;
    for (int token = 0; token < shape.options.tokens(); ++token)
      texts.push_back(token == shape.needle + 3 ? " 47" : " word");
    test::write_token_texts(full, texts);
    test::mark_segment(full, "needle", shape.needle, shape.needle + 4);
  }
  traces.trace = std::make_shared<const Trace>(full);
  const std::vector<std::string> policies = {"h2o", "sink(n=0)"};
  for (int i = 0; i < shape.closed; ++i) {
    const fs::path closed = folder / ("closed" + std::to_string(i) + ".h5");
    test::write_synthetic_closed_loop(closed, shape.options, policies[i],
                                      std::max(8, shape.options.prompt_length / 4));
    traces.closed.push_back(std::make_shared<const Trace>(closed));
  }
  return traces;
}

/// Every page; the names of the lessons that refuse the trace.
std::vector<std::string> open_all(const LessonTraces& traces) {
  std::vector<std::string> refused;
  for (const Lesson& lesson : find_lessons(kLessons)) {
    EXPECT_THAT(lesson.errors(), IsEmpty());
    if (const std::string missing = missing_need(lesson, traces); !missing.empty()) {
      EXPECT_THAT(missing, HasSubstr("lesson " + lesson.name + " needs "));
      refused.push_back(lesson.name.substr(0, 2));
      continue;
    }
    for (std::size_t page = 0; page < lesson.pages.size(); ++page) {
      SCOPED_TRACE(lesson.name + ", \"" + lesson.pages[page].title + "\"");
      try {
        const window::WorkspaceState workspace =
            page_workspace(lesson, page, traces, test::unwatched);
        const LessonState state = lesson_state(traces, workspace);
        const Page& shown = lesson.pages[page];
        const std::string text = plain_text(finished_text(shown.text, state, test::unwatched));
        EXPECT_THAT(text, Not(HasSubstr("–"))) << "a number that is not to be had";
        EXPECT_THAT(text, Not(HasSubstr("{")));
        if (shown.task) {
          EXPECT_THAT(plain_text(finished_text(shown.task->text, state, test::unwatched)),
                      Not(HasSubstr("–")));
          EXPECT_NO_THROW(is_met(shown.task->when, state, test::unwatched));
        }
        for (const PageFigure& figure : page_figures(workspace)) {
          SCOPED_TRACE(figure.info->name);
          make_figure(figure, traces, test::unwatched);
        }
      } catch (const std::exception& problem) {
        ADD_FAILURE() << problem.what();
      }
    }
  }
  return refused;
}

TEST(LessonTraces, EveryPageOpensOnALargerTraceWithEverything) {
  const test::TemporaryFolder folder;
  Shape shape;
  shape.options.layers = 3;
  shape.options.query_heads = 8;
  shape.options.heads = 2;
  shape.options.prompt_length = 160;
  shape.options.question = 6;
  shape.options.lm_head = shape.options.vocabulary = true;
  shape.needle = 40;
  shape.closed = 2;
  EXPECT_THAT(open_all(traces_of(shape, folder.path())), IsEmpty());
}

TEST(LessonTraces, EveryPageOpensOnOneLayerWithOneHead) {
  const test::TemporaryFolder folder;
  Shape shape;
  shape.options.layers = shape.options.query_heads = shape.options.heads = 1;
  shape.options.prompt_length = 70;
  shape.options.block = 16;
  shape.options.generated = 3;
  shape.closed = 1;
  EXPECT_THAT(open_all(traces_of(shape, folder.path())), UnorderedElementsAre("10"))
      << "which follows a needle";
}

TEST(LessonTraces, EveryPageOpensWithoutWhatATraceNeedNotHave) {
  const test::TemporaryFolder folder;
  Shape shape;
  shape.options.layers = 5;
  shape.options.query_heads = shape.options.heads = 3;
  shape.options.prompt_length = 64;
  shape.options.block = 64;  // one block
  shape.options.generated = 0;
  shape.options.output_weight = shape.options.value_out_norms = shape.options.predictions =
      shape.options.text = false;
  EXPECT_THAT(open_all(traces_of(shape, folder.path())),
              UnorderedElementsAre("03", "06", "08", "09", "10", "11", "12", "13"));
}

// A view may name a layer that has no cache in this model; what it asks of numbers can be unknown.
TEST(LessonTraces, EveryPageOpensWhereTheFirstLayerHasNoCache) {
  const test::TemporaryFolder folder;
  test::write_kinds_trace(folder / "kinds.h5", test::made_layers());
  LessonTraces traces;
  traces.trace = std::make_shared<const Trace>(folder / "kinds.h5");
  int opened = 0;
  for (const Lesson& lesson : find_lessons(kLessons)) {
    if (!missing_need(lesson, traces).empty()) continue;
    for (std::size_t page = 0; page < lesson.pages.size(); ++page) {
      SCOPED_TRACE(lesson.name + ", \"" + lesson.pages[page].title + "\"");
      const window::WorkspaceState workspace =
          page_workspace(lesson, page, traces, test::unwatched);
      EXPECT_TRUE(traces.trace->attends(workspace.selection.layer));
      finished_text(lesson.pages[page].text, lesson_state(traces, workspace), test::unwatched);
      ++opened;
    }
  }
  EXPECT_GT(opened, 10);
}

TEST(LessonTraces, APageThatWouldBeTooLargeShowsLess) {
  const test::TemporaryFolder folder;
  Shape shape;
  shape.options.layers = 1;
  shape.options.query_heads = shape.options.heads = 1;
  shape.options.prompt_length = 1200;
  shape.options.block = 32;
  shape.options.generated = 4;
  const LessonTraces traces = traces_of(shape, folder.path());
  const figure::TextMetrics fonts;
  const WrittenLesson page = make_web_page(find_lesson((kLessons / "01-what-a-cache-holds.md").string()),
                                     traces, fonts, test::unwatched);
  EXPECT_THAT(page.problems, IsEmpty());
  EXPECT_LE(page.bytes.size(), 4'500'000U);
}

TEST(LessonText, PiecesWithConditionsAreShownWhereTheyHold) {
  const test::TemporaryFolder folder;
  LessonTraces traces;
  traces.trace = test::open_synthetic_trace(folder / "t.h5");
  const auto shown = [&](const std::string& text) {
    return plain_text(finished_text(
        read_text({{1, text}}), lesson_state(traces, window::default_state()), test::unwatched));
  };
  EXPECT_EQ(shown("a {{if layers > 0}}b {{layers | int}}{{else}}c{{end}} d"),
            "a b " + std::to_string(traces.trace->model().num_layers) + " d");
  EXPECT_EQ(shown("a {{if layers > 90}}b{{else}}**c**{{end}}"), "a c");
  EXPECT_EQ(shown("{{if model}}m{{end}}{{if needle_number}}n{{end}}"), "m")
      << "texts that are there";
  EXPECT_EQ(shown("{{if needle_token >= 0}}it has one{{end}}"), "") << "a value that is not there";
  EXPECT_EQ(shown("{{if 1}}x{{if 0}}y{{else}}z{{end}}{{else}}w{{end}}."), "xz.");
  for (const auto& [text, why] : std::map<std::string, std::string>{
           {"{{if 1}}a", "is not closed by {{end}}"},
           {"a{{end}}", "{{end}} has no {{if ...}} before it"},
           {"{{else}}", "{{else}} has no {{if ...}} before it"},
           {"{{if 1}}a{{else}}b{{else}}c{{end}}", "a second {{else}}"},
           {"{{if 1 | percent}}a{{end}}", "has no format"}}) {
    try {
      read_text({{1, text}});
      ADD_FAILURE() << text;
    } catch (const TextError& error) {
      EXPECT_THAT(error.problem, HasSubstr(why)) << text;
    }
  }
  RichText pending = read_text({{1, "a{{if layers > 0}}b{{end}}"}});
  EXPECT_EQ(plain_text(without_numbers(pending)), "a");
}

}  // namespace
}  // namespace kvloupe::lesson
