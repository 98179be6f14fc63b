// The lessons that come with the program, on the demo model: every page opens, and every task can
// be done with the window's controls.

#include "app/lesson/lesson.h"
#include "app/lesson/text.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// Policies to type for conditions that do not name one: by lesson and page.
const std::map<std::pair<std::string, std::string>, std::string>& policies_to_type() {
  static const std::map<std::pair<std::string, std::string>, std::string> kPolicies = {
      {{"03-without-the-sink", "StreamingLLM keeps four tokens"}, "sink(n=1)"},
      {{"10-who-loses-the-needle", "What if it were kept?"}, "snapkv"},
      {{"13-while-the-model-writes", "When does a policy act?"}, "h2o+slack(16)"},
      {{"13-while-the-model-writes", "Keep the prompt"}, "h2o+protect_prompt(1)"},
      {{"13-while-the-model-writes", "Chance as a line"}, "keydiff+protect_prompt(1)"},
  };
  return kPolicies;
}

/// Every word that stands in brackets behind a name: words("score_is", …) of score_is("h2o").
std::vector<std::string> words(const std::string& name, const std::string& condition) {
  const std::regex call(name + R"re(\(\s*"([^"]*)"\s*\))re");
  std::vector<std::string> found;
  for (std::sregex_iterator it(condition.begin(), condition.end(), call), end; it != end; ++it)
    found.push_back((*it)[1].str());
  return found;
}

struct Lessons : WindowTest {
  void prepare() override {
    demo::DemoPlaces places{.assets = fs::path(KVLOUPE_SOURCE_DIR) / "assets",
                            .cache = folder_.path() / "cache",
                            .program = std::string(KVLOUPE_BIN_DIR) + "/kvloupe-capture"};
    if (!fs::exists(places.program)) GTEST_SKIP() << places.program << " is not built";
    lessons_ = lesson::find_lessons(places.assets / "lessons");
    if (lessons_.empty()) GTEST_SKIP() << "there are no lessons in assets/lessons";
    start(1280, 800, {.demo = places});
  }
  window::LessonPlayer& player() { return driver_->workspace.lessons; }

  void open(const lesson::Lesson& lesson) {
    w().open_lesson(lesson.name);
    driver().settle();
    ASSERT_TRUE(player().is_open()) << w().notice;
    ASSERT_EQ(player().trace_error(), "") << lesson.name;
  }

  bool met() { return player().is_met(player().page()); }
  /// Presses keys until the task is done, at most `times`.
  bool until_met(const std::function<void()>& press, int times) {
    for (int i = 0; i < times && !met(); ++i) {
      press();
      driver().settle();
    }
    return met();
  }
  void type_policy(const std::string& spec) {
    driver().type("/").frames(3);
    driver().key(GLFW_KEY_A, true).type(spec).key(GLFW_KEY_ENTER).settle();
  }
  /// The policy that a condition asks for; empty: any.
  std::string policy_for(const std::string& condition) {
    const auto listed =
        policies_to_type().find({player().lesson().name, player().shown_page()->title});
    if (listed != policies_to_type().end()) return listed->second;
    const std::vector<std::string> scores = words("score_is", condition);
    const std::vector<std::string> parts = words("policy_has", condition);
    if (scores.empty() && parts.empty()) return {};
    const bool other = condition.find(") == 0") != std::string::npos && parts.empty();
    std::string spec = other            ? (scores.front() == "tova" ? "h2o" : "tova")
                       : scores.empty() ? "keydiff"
                                        : scores.front();
    for (const std::string& part : parts) spec += "+" + part;
    return spec;
  }
  /// Does the task of the page in hand as a reader would: one control after the other, each from
  /// the page's own view, with the policy that it asks for.
  bool do_task() {
    const std::string condition = player().shown_page()->task->when.text();
    const std::string policy = policy_for(condition);
    const auto heads = [&] {
      for (int layer = 0; layer < 12; ++layer) driver().key(GLFW_KEY_UP);
      const ModelInfo& model = w().results.trace()->model();
      for (int layer = 0; layer < model.num_layers; ++layer) {
        for (int head = 0; head < model.num_kv_heads; ++head) driver().key(GLFW_KEY_LEFT);
        driver().settle();
        if (until_met([&] { driver().key(GLFW_KEY_RIGHT); }, model.num_kv_heads - 1)) return;
        driver().key(GLFW_KEY_DOWN);
      }
    };
    const std::vector<std::pair<std::string, std::function<void()>>> controls = {
        {"", [] {}},
        {"policy_b", [&] { until_met([&] { driver().type("b"); }, 1); }},
        {"token", [&] { until_met([&] { driver().key(GLFW_KEY_RIGHT, false, true); }, 60); }},
        {"first_token", [&] { until_met([&] { driver().type("r"); }, 1); }},
        {"viewing",
         [&] {
           driver().type("k").frames(2);
           driver().type(words("viewing", condition).front()).key(GLFW_KEY_ENTER).settle();
         }},
        {"layer", heads},
        {"head", heads},
        {"sinks.here", heads},
        {"step",
         [&] {
           driver().key(GLFW_KEY_END).settle();
           driver().key(GLFW_KEY_HOME).settle();
           until_met([&] { driver().type("."); }, w().shown.step_count());
         }},
        {"kept",
         [&] {
           driver().key(GLFW_KEY_HOME).settle();
           until_met([&] { driver().type("."); }, w().shown.step_count());
         }},
        {"", [&] { until_met([&] { driver().type("["); }, 40); }},
        {"", [&] { until_met([&] { driver().type("]"); }, 40); }},
    };
    for (const auto& [name, use] : controls) {
      if (condition.find(name) == std::string::npos) continue;
      driver().key(GLFW_KEY_HOME, true);  // the page's view again
      driver().settle();
      if (!policy.empty()) type_policy(policy);
      if (!met()) use();
      if (met()) return true;
    }
    return false;
  }

  std::vector<lesson::Lesson> lessons_;
};

TEST_F(Lessons, EveryPageOpensAndItsNumbersAreThere) {
  for (const lesson::Lesson& lesson : lessons_) {
    EXPECT_THAT(lesson.errors(), IsEmpty());
    open(lesson);
    for (int page = 0; page < player().page_count(); ++page) {
      SCOPED_TRACE(lesson.name + ", page " + std::to_string(page + 1));
      if (page > 0) driver().key(GLFW_KEY_PAGE_DOWN);
      driver().settle();
      ASSERT_EQ(player().page(), page);
      EXPECT_EQ(player().page_error(), "");
      EXPECT_EQ(w().notice, "");
      const std::string text = lesson::plain_text(player().text());
      EXPECT_THAT(text, Not(IsEmpty()));
      // An answer that goes on ends with " …”".
      EXPECT_THAT(std::regex_replace(text, std::regex(" …”"), "”"), Not(HasSubstr("…")))
          << "a number is still to come";
      EXPECT_THAT(text, Not(HasSubstr("–"))) << "a number that is not to be had";
      for (int i = 0; i < w().state.tile_count; ++i) {
        const window::Tile& tile = w().tiles[i];
        EXPECT_EQ(tile.error(), "") << w().state.tiles[i].view;
        EXPECT_NE(tile.scene(), nullptr);
      }
      EXPECT_FALSE(player().view_changed(w().state, w().results));
    }
  }
}

TEST_F(Lessons, EveryTaskCanBeDoneWithTheControls) {
  for (const lesson::Lesson& lesson : lessons_) {
    open(lesson);
    for (int page = 0; page < player().page_count(); ++page) {
      if (page > 0) driver().key(GLFW_KEY_PAGE_DOWN);
      driver().settle();
      ASSERT_EQ(player().page(), page);
      const lesson::Page& shown = *player().shown_page();
      if (!shown.task) continue;
      EXPECT_FALSE(met()) << lesson.name << ", \"" << shown.title
                          << "\": the task is done before the reader has touched anything";
      if (met()) continue;
      EXPECT_TRUE(do_task()) << lesson.name << ", \"" << shown.title
                             << "\": " << shown.task->when.text();
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
