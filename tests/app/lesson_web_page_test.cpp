// A lesson as a web page: its texts, figures, sliders, and what could not be shown.

#include "app/lesson/web_page.h"

#include <gmock/gmock.h>

#include "analysis/output_file.h"
#include "app/cli/commands.h"
#include "tests/figure/page_reader.h"
#include "tests/figure/well_formed.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::lesson {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kLesson = R"(# Heads & tails

What it shows.

## Text and steps

The prompt has **{{prompt_tokens | int}}** tokens; `a < b`.

- one
- two

```view
{"tiles": [{"view": "filmstrip"}, {"view": "tokens"}], "tile_count": 2,
 "selection": {"layer": 1, "head": 0, "step": 1}, "budget": "50%", "slider": "steps"}
```

```task
Go on.
when: step > 1
```

## One map

```view
{"tiles": [{"view": "attention"}], "tile_count": 1}
```

## A page that is wrong

```view
{"tiles": [{"view": "no-such-view"}], "tile_count": 1}
```
)";

class LessonWebPageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_synthetic_trace(folder / "t.h5");
    write_whole_file(folder / "heads.md", kLesson);
  }
  test::TemporaryFolder folder;
};

TEST_F(LessonWebPageTest, HoldsTextsFiguresAndASlider) {
  LessonTraces traces;
  traces.trace = std::make_shared<const Trace>(folder / "t.h5");
  const figure::TextMetrics fonts;
  const WebPage page =
      make_web_page(read_lesson(folder / "heads.md"), traces, fonts, test::unwatched);
  EXPECT_THAT(test::why_not_well_formed(page.html), IsEmpty());
  EXPECT_LT(page.html.size(), 1'000'000U);
  EXPECT_THAT(page.html,
              AllOf(HasSubstr("<h1>Heads &amp; tails</h1>"), HasSubstr("What it shows."),
                    HasSubstr("<strong>96</strong>"), HasSubstr("<code>a &lt; b</code>"),
                    HasSubstr("<ul>\n<li>one</li>\n<li>two</li>\n</ul>"), HasSubstr("Go on.")));
  const nlohmann::json data = test::page_data(page.html);
  ASSERT_THAT(data["figures"], SizeIs(3));
  // Three blocks of 32 tokens, then eight that were generated.
  ASSERT_THAT(data["sliders"], SizeIs(3));
  EXPECT_THAT(data["sliders"][0], SizeIs(11));
  EXPECT_THAT(data["sliders"][1], IsEmpty());
  EXPECT_THAT(data["figures"][0]["frames"], SizeIs(1));  // a film strip holds all steps
  EXPECT_THAT(data["figures"][1]["frames"], SizeIs(11));
  EXPECT_THAT(page.html, HasSubstr("<output>1</output>"));
  EXPECT_THAT(data["figures"][1]["frames"][4]["c"].get<std::string>(), HasSubstr("after step 4"));
  EXPECT_NE(test::page_texts(data["figures"][1], 0), test::page_texts(data["figures"][1], 10));
  EXPECT_THAT(data["names"][0]["steps"], SizeIs(22));
  // The error is shown in the place of its page, and the other pages are there.
  ASSERT_THAT(page.problems, SizeIs(1));
  EXPECT_THAT(page.problems[0], AllOf(HasSubstr("heads.md:3"), HasSubstr("no-such-view")));
  EXPECT_THAT(page.html, HasSubstr("<p class=\"problem\">"));
}

TEST_F(LessonWebPageTest, ASliderHasTheWantedStepAndBothEnds) {
  EXPECT_THAT(slider_steps(4, 2, 32), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slider_steps(1, 0, 32), ElementsAre(0));
  EXPECT_THAT(slider_steps(101, 40, 5), ElementsAre(0, 25, 40, 75, 100));
  for (const int wanted : {0, 1, 57, 332, 333}) {
    const std::vector<int> steps = slider_steps(334, wanted, 32);
    EXPECT_THAT(steps, SizeIs(32));
    EXPECT_EQ(steps.front(), 0);
    EXPECT_EQ(steps.back(), 333);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_THAT(steps, ::testing::Contains(wanted));
  }
}

TEST_F(LessonWebPageTest, TheCommandWritesItAndSaysWhatIsWrong) {
  std::vector<std::string> words{"kvloupe",
                                 "lesson",
                                 (folder / "heads.md").string(),
                                 "--html",
                                 (folder / "heads.html").string(),
                                 "--trace",
                                 (folder / "t.h5").string()};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cli::run(static_cast<int>(argv.size()), argv.data()), 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no-such-view"));
  EXPECT_GT(std::filesystem::file_size(folder / "heads.html"), 50'000U);
}

}  // namespace
}  // namespace kvloupe::lesson
