// Lessons in the window, driven by mouse and keys.

#include "app/lesson/text.h"
#include "tests/app/fake_demo.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr const char* kFirst = R"(# What a cache holds
closed: h2o 24

Keys and values, and what a budget does to them.

## A budget

```view
{"tiles": [{"view": "filmstrip"}], "selection": {"layer": 2, "head": 1}, "budget": "50%"}
```

There are {{tokens | int}} tokens in {{layers | int}} layers. **Bold**, *emphasis*, `keydiff`.

```task
Make the budget smaller than 10 %.
when: budget < 0.1
```

## Open against closed loop

```view
{"tiles": [{"view": "drift"}, {"view": "filmstrip"}], "tile_count": 2, "policy_a": "h2o",
 "budget": "24", "selection": {"layer": 1}}
```

The head keeps {{measure("retained_mass") | percent}} of the attention.

```task
Keep less of it.
when: measure("retained_mass") < 0.5
```

## The end

Nothing to do here.
)";

constexpr const char* kSecond = R"(# Broken in one place

A page names what does not exist.

## A view that is none

```view
{"tiles": [{"view": "filmstrop"}]}
```

Text stays.

## A good page

```view
{"tiles": [{"view": "tokens"}], "budget": "30%"}
```

It works.
)";

struct LessonPanel : WindowTest {
  void prepare() override {
    write("01-cache.md", kFirst);
    write("02-broken.md", kSecond);
    open_window();
  }
  void open_window(int width = 1280, int height = 800) {
    start(width, height, window::Workspace::Host{.demo = demo_.places()});
    driver_->settle();
  }
  void write(const char* name, const std::string& text) const {
    std::filesystem::create_directories(demo_.places().assets / "lessons");
    std::ofstream(demo_.places().assets / "lessons" / name) << text;
  }
  void open_lesson(const std::string& name) {
    w().open_lesson(name);
    driver().settle();
    ASSERT_TRUE(w().lessons.is_open()) << w().notice;
    ASSERT_EQ(w().lessons.lesson().name, name);
  }
  void press(const char* label) { driver().press_on("##lesson", {label}).settle(); }
  std::string text() { return lesson::plain_text(w().lessons.text()); }

  FakeDemo demo_;
};

TEST_F(LessonPanel, IsOpenedFromTheStartPageOnItsOwnTraces) {
  driver().press_on("##start", {"01-cache", "##lesson"}).settle();
  ASSERT_TRUE(w().lessons.is_open());
  EXPECT_EQ(w().lessons.lesson().title, "What a cache holds");
  EXPECT_EQ(w().lessons.trace_error(), "");
  ASSERT_NE(w().results.trace(), nullptr);
  EXPECT_EQ(w().results.trace()->path().parent_path(), demo_.places().cache);
  EXPECT_THAT(demo_.runs(), SizeIs(2)) << "with the full cache, and with the policy";
  EXPECT_NE(w().results.other_loop(), nullptr);
  EXPECT_EQ(state().budget.text(), "50%");
  EXPECT_EQ(state().selection.layer, 2);
  EXPECT_EQ(state().selection.head, 1);
  EXPECT_EQ(state().tiles[0].view, "filmstrip");
  EXPECT_THAT(text(), HasSubstr("There are 104 tokens in 3 layers."));
  EXPECT_EQ(w().notice, "");
}

TEST_F(LessonPanel, PagesAreTurnedByKeysButtonsAndDots) {
  open_lesson("01-cache");
  driver().key(GLFW_KEY_PAGE_DOWN).settle();
  EXPECT_EQ(w().lessons.page(), 1);
  EXPECT_EQ(state().tiles[0].view, "drift");
  EXPECT_EQ(w().tiles[0].error(), "") << "its closed-loop run is at hand";
  EXPECT_EQ(state().policy_a.text(), "h2o");
  EXPECT_EQ(state().tile_count, 2);
  driver().key(GLFW_KEY_PAGE_UP).settle();
  EXPECT_EQ(w().lessons.page(), 0);
  EXPECT_EQ(state().tile_count, 1);
  EXPECT_EQ(state().policy_a.text(), "keydiff");
  driver().key(GLFW_KEY_PAGE_UP);
  EXPECT_EQ(w().lessons.page(), 0) << "there is none before";
  press("Next###Next");
  press("Next###Next");
  EXPECT_EQ(w().lessons.page(), 2);
  EXPECT_EQ(state().tiles[0].view, "drift") << "a page without a view keeps the one before";
  press("Back");
  EXPECT_EQ(w().lessons.page(), 1);
  press("Next###Next");
  press("Next###Next");
  EXPECT_EQ(w().lessons.lesson().name, "02-broken") << "the next lesson behind the last page";
  EXPECT_EQ(w().lessons.page(), 0);
}

TEST_F(LessonPanel, BringsThePagesViewBackAfterTheReaderHasChangedIt) {
  open_lesson("01-cache");
  const window::WorkspaceState page = state();
  EXPECT_FALSE(w().lessons.view_changed(w().state, w().results));
  driver().type("t").settle();
  EXPECT_FALSE(w().lessons.view_changed(w().state, w().results)) << "the theme is the reader's";
  driver().key(GLFW_KEY_UP).type("]").type("2").settle();
  EXPECT_TRUE(w().lessons.view_changed(w().state, w().results));
  EXPECT_FALSE(state().budget == page.budget);
  press("Return to this page's view");
  EXPECT_FALSE(w().lessons.view_changed(w().state, w().results));
  EXPECT_EQ(state().selection, page.selection);
  EXPECT_TRUE(state().budget == page.budget);
  EXPECT_EQ(state().tile_count, page.tile_count);
  EXPECT_EQ(state().theme, window::Theme::dark);
  // Another trace, too.
  open_file(demo_.path("full.h5").string());
  EXPECT_TRUE(w().lessons.view_changed(w().state, w().results));
  driver().key(GLFW_KEY_HOME, true).settle();
  EXPECT_EQ(w().results.trace()->path().parent_path(), demo_.places().cache);
  EXPECT_EQ(state().selection, page.selection);
}

TEST_F(LessonPanel, ATaskIsTickedWhenItIsDoneAndStaysSo) {
  open_lesson("01-cache");
  EXPECT_FALSE(w().lessons.is_met(0));
  for (int i = 0; i < 60 && !w().lessons.is_met(0); ++i) driver().type("[");
  EXPECT_TRUE(w().lessons.is_met(0));
  press("Return to this page's view");
  EXPECT_TRUE(w().lessons.is_met(0));
  driver().key(GLFW_KEY_PAGE_DOWN).settle();
  EXPECT_FALSE(w().lessons.is_met(1));
  driver().key(GLFW_KEY_PAGE_UP).settle();
  EXPECT_TRUE(w().lessons.is_met(0));
}

TEST_F(LessonPanel, ATaskThatIsMeasuredIsTickedToo) {
  open_lesson("01-cache");
  driver().key(GLFW_KEY_PAGE_DOWN).settle();
  EXPECT_THAT(text(), AllOf(HasSubstr("%"), Not(HasSubstr("…"))));
  EXPECT_FALSE(w().lessons.is_met(1));
  for (int i = 0; i < 60 && !w().lessons.is_met(1); ++i) {
    driver().type("[").settle();
  }
  EXPECT_TRUE(w().lessons.is_met(1)) << state().budget.text();
}

TEST_F(LessonPanel, ABrokenPageSaysWhereAndTheOthersWork) {
  open_lesson("02-broken");
  EXPECT_THAT(w().lessons.page_error(), AllOf(HasSubstr("02-broken.md:8"), HasSubstr("filmstrop")));
  EXPECT_THAT(text(), HasSubstr("Text stays."));
  press("Next###Next");
  EXPECT_EQ(w().lessons.page_error(), "");
  EXPECT_EQ(state().tiles[0].view, "tokens");
  EXPECT_EQ(state().budget.text(), "30%");
}

TEST_F(LessonPanel, ALessonThatIsNoneIsListedWithWhatIsWrong) {
  write("03-empty.md", "");
  write("04-folder.md", "# Fine\nprompt: needle\ncolour: blue\n\nWords.\n\n## A page\n\nText.\n");
  open_window();
  ASSERT_NE(w().lessons.list(), nullptr);
  ASSERT_THAT(*w().lessons.list(), SizeIs(4));
  EXPECT_THAT((*w().lessons.list())[2].error, HasSubstr("03-empty.md"));
  EXPECT_THAT((*w().lessons.list())[3].error, HasSubstr("04-folder.md:3"));
  open_lesson("04-folder");
  EXPECT_THAT(text(), HasSubstr("Text."));
  w().open_lesson("03-empty");
  driver().settle();
  EXPECT_EQ(w().lessons.page_count(), 0);
  driver().key(GLFW_KEY_PAGE_DOWN);  // nothing more here: on to the next lesson
  driver().settle();
  EXPECT_EQ(w().lessons.lesson().name, "04-folder");
}

TEST_F(LessonPanel, SaysWhyItsTraceIsNotThere) {
  demo_.before("echo 'kvloupe-capture: out of memory; try fewer tokens' >&2; exit 1");
  w().open_lesson("01-cache");
  driver().settle();
  ASSERT_TRUE(w().lessons.is_open());
  EXPECT_EQ(w().lessons.trace_error(), "out of memory; try fewer tokens");
  EXPECT_EQ(w().results.trace(), nullptr);
  EXPECT_GT(WindowDriver::colours(driver().picture()), 10);
  press("Next###Next");
  EXPECT_EQ(w().lessons.page(), 1) << "it can be read all the same";
}

TEST_F(LessonPanel, ATraceThatLacksWhatTheLessonNeedsIsNamed) {
  write("05-needs.md", "# Needs\nneeds: tokens>=5000\n\nWords.\n\n## A page\n\nText.\n");
  const auto trace = std::make_shared<const Trace>(demo_.path("full.h5"));
  w().lessons.open(lesson::read_lesson(demo_.places().assets / "lessons/05-needs.md"), {trace});
  driver().settle();
  EXPECT_THAT(w().lessons.trace_error(), AllOf(HasSubstr("full.h5"), HasSubstr("5")));
  EXPECT_THAT(demo_.runs(), IsEmpty());
}

TEST_F(LessonPanel, FoldsClosesAndIsReachedByKey) {
  open_lesson("01-cache");
  EXPECT_TRUE(driver().point_at("##lesson", {"Back"}) ||
              driver().point_at("##lesson", {"Next###Next"}));
  driver().key(GLFW_KEY_F10).frames(2);
  EXPECT_TRUE(w().lesson_folded);
  EXPECT_FALSE(driver().point_at("##lesson", {"Next###Next"}));
  driver().press_on("##lesson", {"##unfold"}).frames(2);
  EXPECT_TRUE(driver().point_at("##lesson", {"Next###Next"}));
  driver().press_on("##lesson", {"##close"}).frames(2);
  EXPECT_FALSE(w().lessons.is_open());
  EXPECT_NE(w().results.trace(), nullptr) << "what the window shows stays";
  driver().type("l").frames(2);
  EXPECT_TRUE(w().sheets.palette.is_open());
  driver().type("broken").key(GLFW_KEY_ENTER).settle();
  ASSERT_TRUE(w().lessons.is_open());
  EXPECT_EQ(w().lessons.lesson().name, "02-broken");
}

TEST_F(LessonPanel, LeavesRoomForItsControlsAtAnySize) {
  for (const auto& [width, height, scale] :
       {std::tuple{1280, 720, 1.5}, {1024, 768, 1.25}, {1600, 1000, 1.0}}) {
    open_window(width, height);
    w().state.scale = scale;
    open_lesson("01-cache");
    for (const char* control : {"Next###Next", "##fold", "##close"}) {
      EXPECT_TRUE(driver().point_at("##lesson", {control})) << width << control;
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
