// Files are read in the background and taken over between two frames: the trace that a frame began
// with is the trace it ends with.

#include <future>

#include "app/session/session.h"
#include "app/window/shell/window.h"
#include "app/window/state/recent_files.h"
#include "tests/app/window_test.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct OpenedFiles : WindowTest {
  void prepare() override {
    start();
    large_ = write("large.h5", 5);
    small_ = write("small.h5", 2);
  }
  std::string write(const char* name, int layers) {
    write_synthetic_trace(folder_ / name, {.layers = layers, .prompt_length = layers * 32});
    return (folder_ / name).string();
  }
  std::string shown() { return w().results.trace()->path().filename().string(); }
  void open(const std::string& path) {
    open_and_settle(path);
    ASSERT_EQ(w().notice, "");
  }
  /// The path of a session whose layer, token, step and block size the small trace does not have.
  std::string save_session_of_the_large_trace() {
    open(large_);
    state().selection.layer = 4;
    state().selection.head = 1;
    state().selection.token = 150;
    state().selection.step = 3;
    state().block = 50;
    state().policy_a = parse_policy("tova");
    driver_->settle();
    const std::string session = (folder_ / "session.json").string();
    w().save_session(session);
    return session;
  }
  /// Waits without drawing until the background has read the file.
  void wait_for_the_reader() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!w().results.quick().idle()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::string large_, small_;
};

TEST_F(OpenedFiles, ATraceIsTheSameFromAFramesBeginToItsEnd) {
  open(large_);
  state().selection.layer = 4;
  driver_->settle();
  const auto before = w().results.trace();
  const std::string key = w().results.trace_key();
  w().open(small_);
  wait_for_the_reader();
  EXPECT_EQ(w().results.trace(), before) << "only a frame takes over what was read";
  EXPECT_EQ(w().results.trace_key(), key);
  EXPECT_TRUE(w().results.opening());
  EXPECT_FALSE(w().settled());
  EXPECT_EQ(state().selection.layer, 4);
  driver_->frame();
  EXPECT_EQ(shown(), "small.h5");
  EXPECT_LT(state().selection.layer, 2);
  EXPECT_FALSE(w().results.opening());
  driver_->settle();
  EXPECT_EQ(w().notice, "");
}

/// Keeps all background jobs waiting as long as it lives.
class Held {
 public:
  explicit Held(window::Results& results) {
    for (job::JobQueue* queue : {&results.quick(), &results.all_layers(), &results.comparing()}) {
      for (int thread = 0; thread < 4; ++thread)
        queue->submit([free = free_](Progress&) { free.wait(); });
    }
  }
  ~Held() { end_.set_value(); }

 private:
  std::promise<void> end_;
  std::shared_future<void> free_ = end_.get_future().share();
};

TEST_F(OpenedFiles, NoPictureOfTheTraceBeforeIsLeftToClickOn) {
  open(large_);
  state().tiles[0] = window::TileState{.view = "overview"};
  state().tile_count = 1;
  driver_->settle();
  ASSERT_NE(w().tiles[0].scene(), nullptr);
  const double aspect = w().tiles[0].need(state().tiles[0], w().metrics, 1.0).aspect;
  w().open(small_);
  wait_for_the_reader();
  {
    const Held held(w().results);
    driver_->frames(3);
    EXPECT_EQ(shown(), "small.h5");
    EXPECT_EQ(w().tiles[0].scene(), nullptr);
    EXPECT_EQ(w().grid.scene(), nullptr);
    EXPECT_EQ(w().tiles[0].need(state().tiles[0], w().metrics, 1.0).aspect, aspect)
        << "the tile keeps its place";
  }
  driver_->settle();
  EXPECT_NE(w().tiles[0].scene(), nullptr);
  EXPECT_EQ(w().notice, "");
}

TEST_F(OpenedFiles, WhoeverTypesGoesOnTyping) {
  write_synthetic_study(folder_ / "study.sqlite");
  std::ofstream(folder_ / "broken.h5") << "no trace";
  int number = 0;
  for (const std::string& file :
       {(folder_ / "broken.h5").string(), (folder_ / "study.sqlite").string(), small_, large_,
        (folder_ / "broken.h5").string(), (folder_ / "study.sqlite").string()}) {
    SCOPED_TRACE(file);
    const std::string name = "session" + std::to_string(++number);
    driver_->key(GLFW_KEY_S, true);
    ASSERT_TRUE(w().sheets.file_panel.is_open());
    driver_->key(GLFW_KEY_A, true).type((folder_ / name).string());
    w().open(file);  // what was asked for before comes now
    driver_->settle();
    EXPECT_TRUE(ImGui::GetIO().WantTextInput) << "the field has lost the keyboard";
    driver_->type(".json").key(GLFW_KEY_ENTER);
    EXPECT_FALSE(w().sheets.file_panel.is_open());
    EXPECT_TRUE(std::filesystem::exists(folder_ / (name + ".json")));
  }
}

TEST_F(OpenedFiles, ThePaletteAndThePolicysFieldGoOnToo) {
  open(small_);
  for (const auto& [first, next] : {std::pair{small_, large_}, {large_, small_}}) {
    SCOPED_TRACE(next);
    driver_->key(GLFW_KEY_K, true).type("similarity");
    open_file(next);
    ASSERT_EQ(shown(), std::filesystem::path(next).filename().string());
    driver_->key(GLFW_KEY_ENTER);
    EXPECT_EQ(state().tiles[0].view, "similarity");
    state().tiles[0].view = "attention";

    driver_->type("/").frames(2);
    driver_->key(GLFW_KEY_A, true).type("tova+recent");
    open_file(first);
    driver_->type("(20%)").key(GLFW_KEY_ENTER);
    EXPECT_EQ(state().policy_a.text(), "tova+recent(20%)");
    state().policy_a = parse_policy("keydiff");
    driver_->settle();
  }
}

TEST_F(OpenedFiles, AnExportWaitsForThePicture) {
  open(large_);
  state().tiles[0] = window::TileState{.view = "filmstrip"};
  driver_->settle();
  const std::filesystem::path file = folder_ / "view.svg";
  const auto ask_for = [&](const std::filesystem::path& path) {
    driver_->key(GLFW_KEY_E, true).key(GLFW_KEY_A, true).type(path.string()).key(GLFW_KEY_ENTER);
    driver_->frames(3);
  };
  {
    const Held held(w().results);
    state().policy_a = parse_policy("tova");
    driver_->frames(2);
    ask_for(file);
    EXPECT_TRUE(w().sheets.export_panel.is_open()) << "and says that it waits";
    EXPECT_EQ(w().notice, "");
    // Who closes the sheet does not want the file any more.
    driver_->key(GLFW_KEY_ESCAPE).key(GLFW_KEY_ESCAPE);
    ASSERT_FALSE(w().sheets.export_panel.is_open());
  }
  driver_->settle();
  EXPECT_FALSE(std::filesystem::exists(file));
  {
    const Held held(w().results);
    state().policy_a = parse_policy("h2o");
    driver_->frames(2);
    ask_for(file);
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  driver_->settle();
  driver_->frames(3);
  EXPECT_FALSE(w().sheets.export_panel.is_open());
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(w().notice, "Written: " + file.string());

  ask_for(folder_ / "view.doc");
  EXPECT_TRUE(w().sheets.export_panel.is_open()) << "so that the name can be mended";
  EXPECT_THAT(w().notice, HasSubstr("the name must end in .svg"));
}

TEST_F(OpenedFiles, AHeadOfAStudysLargerModelIsNotSelectedInASmallerTrace) {
  write_synthetic_study(folder_ / "study.sqlite");  // 3 layers
  open(small_);
  open_file(folder_ / "study.sqlite");
  state().tile_count = 1;
  const auto click = [&](int layer) {
    for (const figure::PickRegion& region : w().tiles[0].scene()->regions) {
      if (region.target.layer != layer || region.target.head != 1) continue;
      const auto [x, y] = on_screen(region.rect.centre());
      driver_->click(x, y).frames(2);
      return;
    }
    FAIL() << "no head " << layer << ".1";
  };
  state().tiles[0] = window::TileState{.view = "study-heads"};
  driver_->settle();
  ASSERT_NE(w().tiles[0].scene(), nullptr) << w().tiles[0].error();
  click(0);
  EXPECT_EQ(state().selection.layer, 0);
  EXPECT_EQ(state().selection.head, 1);
  EXPECT_EQ(w().notice, "");
  click(2);
  EXPECT_EQ(state().selection.layer, 0);
  EXPECT_THAT(w().notice,
              HasSubstr("does not have layer 2, head 1: it has 2 layers of up to 2 heads"));
}

TEST_F(OpenedFiles, ResultsAreTheSameFromAFramesBeginToItsEnd) {
  write_synthetic_evaluation(folder_ / "needle.json");
  open(small_);
  w().open((folder_ / "needle.json").string());
  wait_for_the_reader();
  EXPECT_EQ(w().results.evaluation(), nullptr);
  EXPECT_EQ(w().results.evaluation_key(), "");
  EXPECT_TRUE(w().results.opening_evaluation());
  EXPECT_FALSE(w().settled());
  driver_->settle();
  ASSERT_NE(w().results.evaluation(), nullptr);
  EXPECT_EQ(state().tiles[0].view, "needle-grid");
}

TEST_F(OpenedFiles, ASessionOfALargerTraceKeepsItsSelectionWhereASmallerOneIsShown) {
  const std::string session = save_session_of_the_large_trace();
  const window::WorkspaceState saved = state();

  open(small_);
  ASSERT_LT(state().selection.layer, 2);
  const window::WorkspaceState before = state();
  w().open(session);
  wait_for_the_reader();
  EXPECT_EQ(window::session_text(state()), window::session_text(before))
      << "the session comes with its trace";
  driver_->settle();
  EXPECT_EQ(shown(), "large.h5");
  EXPECT_EQ(window::session_text(state()), window::session_text(saved));

  // The trace after it is an ordinary one.
  open(small_);
  EXPECT_LT(state().selection.layer, 2);
  EXPECT_EQ(state().selection.token, -1);
}

TEST_F(OpenedFiles, ASessionOfTheTraceThatIsShownIsTakenOver) {
  const std::string session = save_session_of_the_large_trace();
  const window::WorkspaceState saved = state();
  state().selection.layer = 0;
  state().policy_a = parse_policy("sink");
  driver_->settle();
  open_file(session);
  EXPECT_EQ(window::session_text(state()), window::session_text(saved));
  open(small_);
  EXPECT_EQ(state().selection.token, -1) << "not of the session any more";
}

TEST_F(OpenedFiles, ASessionWhoseTraceHasMovedIsTakenWithTheTraceOpenedNext) {
  const std::string session = save_session_of_the_large_trace();
  window::WorkspaceState saved = state();
  open(small_);
  const window::WorkspaceState before = state();
  std::filesystem::rename(large_, folder_ / "moved.h5");
  open_file(session);
  EXPECT_THAT(w().notice, HasSubstr("large.h5"));
  EXPECT_EQ(shown(), "small.h5");
  EXPECT_EQ(window::session_text(state()), window::session_text(before)) << "nothing is lost";
  open((folder_ / "moved.h5").string());
  saved.trace = (folder_ / "moved.h5").string();
  EXPECT_EQ(window::session_text(state()), window::session_text(saved));
}

TEST_F(OpenedFiles, WhatIsShownWhenAnErrorEndsTheWindowIsKept) {
  const std::filesystem::path list = folder_ / "my state" / "recent";
  EXPECT_EQ(window::keep_last_session(w(), list), "") << "nothing is shown";
  EXPECT_FALSE(std::filesystem::exists(list.parent_path()));
  open(large_);
  state().selection.layer = 4;
  state().policy_a = parse_policy("tova");
  driver_->settle();
  EXPECT_EQ(window::keep_last_session(w(), {}), "") << "there is no place for it";
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_EQ(window::keep_last_session(w(), folder_ / "file" / "recent"), "");
  const std::string told = window::keep_last_session(w(), list);
  const std::string session = (list.parent_path() / "last-session.json").string();
  EXPECT_THAT(told, HasSubstr("kvloupe --session '" + session + "'"));
  const std::string saved = window::session_text(state());

  driver_.reset();
  window::Workspace::Host host{.recent_files = list};
  driver_ = std::make_unique<WindowDriver>(1280, 800, host);
  ASSERT_EQ(window::RecentFiles(list).files().front(), session);
  open(session);
  EXPECT_EQ(window::session_text(state()), saved);
}

}  // namespace
}  // namespace kvloupe::test
