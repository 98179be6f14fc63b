// The keys that a frame may see if keys come faster than frames.

#include "app/window/shell/input_queue.h"
#include "tests/support/test.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <cctype>

namespace kvloupe::window {
namespace {

struct InputQueueTest : testing::Test {
  void tap(int key, int modifiers = 0) {
    queue.push(KeyEvent{key, 0, GLFW_PRESS, modifiers, 0});
    queue.push(KeyEvent{key, 0, GLFW_RELEASE, modifiers, 0});
  }
  void type(const std::string& text) {
    for (const char c : text) {
      const int key = std::toupper(c);
      queue.push(KeyEvent{key, 0, GLFW_PRESS, 0, 0});
      queue.push(KeyEvent{0, 0, GLFW_PRESS, 0, static_cast<unsigned>(c)});
      queue.push(KeyEvent{key, 0, GLFW_RELEASE, 0, 0});
    }
  }
  void move(double x) { queue.push(PointerEvent{-1, false, x, 0.0}); }
  void press() { queue.push(PointerEvent{GLFW_MOUSE_BUTTON_LEFT, true}); }
  void release() { queue.push(PointerEvent{GLFW_MOUSE_BUTTON_LEFT, false}); }
  /// "K" pressed, "k" released, "'k" the character; "C" and "c": Control; "@3" the pointer at 3,
  /// "[" its button pressed, "]" released.
  std::string frame(bool typing = false) {
    std::string seen;
    const auto key = [&](const KeyEvent& event) {
      if (event.key == 0) {
        seen += std::string("'") + static_cast<char>(event.character);
      } else {
        const char name = event.key == GLFW_KEY_LEFT_CONTROL ? 'C'
                          : event.key == GLFW_KEY_ENTER      ? '\n'
                                                             : static_cast<char>(event.key);
        seen += event.action == GLFW_RELEASE
                    ? static_cast<char>(std::tolower(static_cast<unsigned char>(name)))
                    : name;
      }
    };
    const auto pointer = [&](const PointerEvent& event) {
      seen += event.button < 0 ? fmt::format("@{}", event.x) : event.down ? "[" : "]";
    };
    queue.next_frame(typing, {key, pointer});
    return seen;
  }
  InputQueue queue;
};

TEST_F(InputQueueTest, ATapWithinOneFrameIsDownForAFrame) {
  tap('Q');
  EXPECT_EQ(frame(), "Q");
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(frame(), "q");
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(frame(), "");
}

TEST_F(InputQueueTest, WhatFollowsAShortcutWaitsForWhatItOpens) {
  queue.push(KeyEvent{GLFW_KEY_LEFT_CONTROL, 0, GLFW_PRESS, 0, 0});
  tap('K', GLFW_MOD_CONTROL);
  queue.push(KeyEvent{GLFW_KEY_LEFT_CONTROL, 0, GLFW_RELEASE, GLFW_MOD_CONTROL, 0});
  type("ab");
  EXPECT_EQ(frame(), "CK");
  EXPECT_EQ(frame(), "");
  EXPECT_EQ(frame(), "");
  // The field is open now: characters come together, as fast as they were typed.
  EXPECT_EQ(frame(true), "kcA'aaB'bb");
  EXPECT_TRUE(queue.empty());
}

TEST_F(InputQueueTest, ACharacterThatNoFieldTakesIsACommand) {
  type("kx");
  EXPECT_EQ(frame(), "K'k");
  EXPECT_EQ(frame(), "");
  EXPECT_EQ(frame(), "");
  EXPECT_EQ(frame(true), "kX'xx");
}

TEST_F(InputQueueTest, ATwiceTappedKeyIsTwoPresses) {
  tap('O');
  tap('O');
  EXPECT_EQ(frame(), "O");
  EXPECT_EQ(frame(), "o");
  EXPECT_EQ(frame(), "O");
  EXPECT_EQ(frame(), "o");
  tap(GLFW_KEY_BACKSPACE);
  tap(GLFW_KEY_BACKSPACE);
  int presses = 0;
  for (int i = 0; i < 16; ++i) {
    queue.next_frame(
        true, {[&](const KeyEvent& event) { presses += event.action == GLFW_PRESS; }, nullptr});
  }
  EXPECT_EQ(presses, 2);
}

TEST_F(InputQueueTest, EnterIsSeenBeforeWhatIsTypedNext) {
  type("a");
  tap(GLFW_KEY_ENTER);
  type("b");
  EXPECT_EQ(frame(true), "A'aa\n");
  // ImGui says that nothing is typed into only after two more frames have begun.
  EXPECT_EQ(frame(true), "");
  EXPECT_EQ(frame(true), "");
  EXPECT_EQ(frame(), "\nB'b") << "pressed and released in one frame, it would be lost";
}

TEST_F(InputQueueTest, HeldKeysRepeatAsTheyCome) {
  queue.push(KeyEvent{'D', 0, GLFW_PRESS, 0, 0});
  queue.push(KeyEvent{'D', 0, GLFW_REPEAT, 0, 0});
  queue.push(KeyEvent{'D', 0, GLFW_REPEAT, 0, 0});
  EXPECT_EQ(frame(true), "DDD");
}

TEST_F(InputQueueTest, ADragWithinOneFrameIsSeenFromPressToRelease) {
  move(10);
  press();
  move(20);
  move(30);
  release();
  move(40);
  EXPECT_EQ(frame(), "@10[");
  EXPECT_EQ(frame(), "@20@30") << "still down where it is let go";
  EXPECT_EQ(frame(), "]");
  EXPECT_EQ(frame(), "@40");
  EXPECT_TRUE(queue.empty());
}

TEST_F(InputQueueTest, ADoubleClickWithinOneFrameIsTwoClicks) {
  for (int i = 0; i < 2; ++i) {
    press();
    release();
  }
  EXPECT_EQ(frame(), "[");
  EXPECT_EQ(frame(), "]");
  EXPECT_EQ(frame(), "[");
  EXPECT_EQ(frame(), "]");
}

TEST_F(InputQueueTest, AClickWaitsForTheKeyBeforeIt) {
  queue.push(KeyEvent{GLFW_KEY_LEFT_CONTROL, 0, GLFW_PRESS, 0, 0});
  tap('K', GLFW_MOD_CONTROL);
  press();
  EXPECT_EQ(frame(), "CK");
  EXPECT_EQ(frame(), "");
  EXPECT_EQ(frame(), "");
  EXPECT_EQ(frame(), "k[");
}

}  // namespace
}  // namespace kvloupe::window
