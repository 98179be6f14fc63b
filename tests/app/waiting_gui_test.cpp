// What the window says while something computes, and how one stops it.

#include <future>

#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// A view that compares policies waits behind a job that ends when it is told to.
struct Waiting : WindowTest {
  void prepare() override {
    start();
    w().state = window::default_state();
    const auto trace = folder_.path() / "small.h5";
    write_synthetic_trace(trace, {.layers = 3});
    open_and_settle(trace);
  }
  void TearDown() override {
    open_gate();
    WindowTest::TearDown();
  }
  window::Tile& tile() { return w().tiles[0]; }

  void show_behind_gate(const char* view) {
    w().results.comparing().submit([gate = gate_.get_future().share()](Progress&) { gate.wait(); });
    w().state.tiles[0] = window::TileState{.view = view};
    driver_->frames(2);
  }
  void open_gate() {
    if (std::exchange(open_, true)) return;
    gate_.set_value();
  }
  void wait_for_words() {
    while (!tile().progress()) driver_->frame();
    driver_->frames(2);
  }
  void press_stop() {
    ASSERT_TRUE(tile().stop_button());
    const figure::Point at = tile().stop_button()->centre();
    driver_->click(static_cast<float>(at.x), static_cast<float>(at.y));
  }

  std::promise<void> gate_;
  bool open_ = false;
};

TEST_F(Waiting, AViewIsStoppedAndGoesOnByTheMouse) {
  show_behind_gate("block-size");
  EXPECT_EQ(tile().progress(), nullptr) << "a short wait needs no word";
  wait_for_words();
  EXPECT_EQ(job::how_far(*tile().progress()), "waiting for another job");
  EXPECT_FALSE(w().settled());
  press_stop();
  EXPECT_TRUE(tile().stopped());
  open_gate();
  driver_->settle();
  EXPECT_EQ(tile().figure(), nullptr);
  press_stop();
  driver_->settle();
  EXPECT_NE(tile().figure(), nullptr);
  EXPECT_FALSE(tile().stop_button());
}

TEST_F(Waiting, AViewIsStoppedAndGoesOnByKey) {
  show_behind_gate("block-size");
  wait_for_words();
  driver_->key(GLFW_KEY_PERIOD, true);
  EXPECT_TRUE(tile().stopped());
  EXPECT_EQ(tile().progress(), nullptr);
  open_gate();
  driver_->settle();
  EXPECT_TRUE(tile().stopped()) << "nobody asked for it again";
  EXPECT_EQ(tile().figure(), nullptr);
  driver_->key(GLFW_KEY_PERIOD, true);
  EXPECT_FALSE(tile().stopped());
  driver_->settle();
  EXPECT_NE(tile().figure(), nullptr);
  driver_->key(GLFW_KEY_PERIOD, true);
  EXPECT_FALSE(tile().stopped()) << "what is done cannot be stopped";
}

TEST_F(Waiting, WhatIsStoppedIsComputedForOtherSettings) {
  show_behind_gate("block-size");
  wait_for_words();
  tile().stop();
  open_gate();
  driver_->settle();
  EXPECT_EQ(tile().figure(), nullptr);
  w().state.budget = parse_budget("20%");
  driver_->settle();
  EXPECT_FALSE(tile().stopped());
  EXPECT_NE(tile().figure(), nullptr);
}

TEST_F(Waiting, TheListOfJobsNamesThemAndStopsThem) {
  show_behind_gate("block-size");
  wait_for_words();
  driver_->key(GLFW_KEY_J, true).frames(2);
  driver_->press_on("##Popup", {"Block size and output", "Stop"});
  EXPECT_TRUE(tile().stopped());
}

}  // namespace
}  // namespace kvloupe::test
