// The text in the window: what of it is in sight, what is found in it, and what it says.

#include <imgui_internal.h>

#include "tests/app/window_test.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using window::TextSearch;
using window::TokenText;

constexpr int kLength = 1200;  // of which the last eight are generated

struct Text : WindowTest {
  void prepare() override {
    write("text.h5", texts());
    start(1600, 1130);
    state() = window::default_state();
    open("text.h5");
  }
  /// A line ends after every 20 tokens, an empty one follows after 100.
  static std::vector<std::string> texts() {
    std::vector<std::string> texts;
    for (int i = 0; i < kLength; ++i) {
      texts.push_back(i % 100 == 99 ? ".\n\n" : i % 20 == 19 ? ".\n" : " word" + std::to_string(i));
    }
    // "the Needle" stands three times: in one token, across a border, and in the answer.
    texts[300] = " the needle";
    texts[700] = " THE nee";
    texts[701] = "dle";
    texts[1195] = " the";
    texts[1196] = " needle";
    return texts;
  }
  void write(const char* name, const std::vector<std::string>& words) const {
    SyntheticTraceOptions options{
        .layers = 2, .prompt_length = kLength - 8, .generated = 8, .question = 40, .block = 128};
    write_synthetic_trace(folder_ / name, options);
    write_token_texts(folder_ / name, words);
  }
  void open(const char* name) {
    open_and_settle(folder_ / name);
    ASSERT_EQ(w().results.trace()->length(), kLength);
  }
  const TextSearch& search() { return w().text_panel().search; }
  const TokenText& text() { return w().text_panel().text; }
  TokenText::Place place(int token) { return text().place_of(token); }
  void find(const std::string& words) {
    driver().key(GLFW_KEY_F, true).frames(3);
    ASSERT_TRUE(ImGui::GetIO().WantTextInput) << "the field has the keyboard";
    driver().key(GLFW_KEY_A, true).type(words).frames(2);
  }
  static double difference(const window::Picture& a, const window::Picture& b,
                           const TokenText::Place& at) {
    return WindowDriver::difference(a, b, static_cast<int>(at.x), static_cast<int>(at.y),
                                    static_cast<int>(at.x + at.width),
                                    static_cast<int>(at.y + at.height));
  }
};

TEST_F(Text, LinesEndWhereThoseOfThePromptEnd) {
  state().selection.token = 0;
  driver().settle();
  ASSERT_TRUE(place(0).visible() && place(20).visible() && place(40).visible());
  EXPECT_LT(place(1).x, place(2).x);
  EXPECT_GT(place(20).y, place(1).y) << "token 19 ends a line";
  const float left = place(40).x;
  EXPECT_TRUE(place(60).x == left || place(60).x > left + 300) << "at the edge of a column";
  state().selection.token = 110;
  driver().settle();
  const TokenText::Place before = place(98), after = place(100);
  ASSERT_TRUE(before.visible() && after.visible());
  ASSERT_LT(after.x, before.x) << "in one column";
  EXPECT_EQ(after.y - before.y, 2 * after.height) << "an empty line is between them";
}

TEST_F(Text, ColumnsFillTheWidthAndGoOnWhereTheOneBeforeEnds) {
  EXPECT_EQ(text().columns(), 2);
  driver().resize(2560, 1440).settle();
  EXPECT_EQ(text().columns(), 4);
  state().selection.token = 0;
  driver().settle();
  int seen = 0;
  float last_x = 0.0F, last_y = 0.0F;
  for (int token = 0; token < kLength && place(token).visible(); ++token, ++seen) {
    const TokenText::Place at = place(token);
    EXPECT_TRUE(at.y > last_y || at.x > last_x) << token;
    last_x = at.x;
    last_y = at.y;
    EXPECT_LE(at.x + at.width, 2560 - 16);
  }
  EXPECT_GT(seen, 300);
  EXPECT_GT(last_x, 1900) << "the last column is used";
  driver().resize(800, 900).settle();
  EXPECT_EQ(text().columns(), 1);
  EXPECT_TRUE(place(0).visible()) << "what was in sight stays there";
}

TEST_F(Text, ALongTextIsSearchedByKeyAndEveryPlaceIsMarked) {
  state().token_colour = "none";
  driver().key(GLFW_KEY_F, true).frames(3);
  ASSERT_TRUE(search().is_open());
  driver().type("The Needle").frames(2);
  EXPECT_EQ(search().place_text(), "1 of 3");
  EXPECT_EQ(search().hit()->tokens(), (TokenRange{300, 301}));
  EXPECT_TRUE(place(300).visible()) << "scrolled into sight";
  driver().key(GLFW_KEY_ENTER).frames(3);
  EXPECT_EQ(search().place_text(), "2 of 3");
  EXPECT_EQ(search().hit()->tokens(), (TokenRange{700, 702})) << "across a border";
  EXPECT_TRUE(place(700).visible() && place(701).visible());
  EXPECT_FALSE(place(300).visible());
  driver().key(GLFW_KEY_F3);
  EXPECT_EQ(search().place_text(), "3 of 3");
  EXPECT_GE(search().hit()->first, w().results.trace()->run().prompt_length) << "in the answer";
  driver().frames(2);
  EXPECT_TRUE(place(1196).visible());
  driver().key(GLFW_KEY_F3);
  EXPECT_EQ(search().place_text(), "1 of 3") << "round the end";
  driver().key(GLFW_KEY_F3, false, true);
  EXPECT_EQ(search().place_text(), "3 of 3");
  driver().key(GLFW_KEY_ENTER, false, true).frames(3);
  EXPECT_EQ(search().place_text(), "2 of 3");
  EXPECT_TRUE(ImGui::GetIO().WantTextInput) << "one can type on";

  const window::WorkspaceState before = state();
  driver().key(GLFW_KEY_A, true).type("word70").frames(2);
  EXPECT_EQ(state(), before) << "typing is no command";
  const auto hits = static_cast<int>(search().hits().size());
  EXPECT_GE(hits, 5);
  driver().key(GLFW_KEY_A, true).type("nowhere").frames(2);
  EXPECT_EQ(search().place_text(), "not found");

  driver().key(GLFW_KEY_A, true).type("word70").frames(2);
  driver().key(GLFW_KEY_F3);  // from token 70 to 702, where there are more
  driver().frames(2);
  const auto marked = driver().picture();
  const TokenText::Place current = place(search().hit()->first);
  int other = -1;
  for (const auto& hit : search().hits()) {
    if (hit.first != search().hit()->first && place(hit.first).visible()) other = hit.first;
  }
  ASSERT_TRUE(current.visible());
  ASSERT_GE(other, 0) << "another one in sight";
  driver().key(GLFW_KEY_F3).frames(2);
  EXPECT_GT(difference(marked, driver().picture(), current), 0.2) << "the current one is stronger";
  driver().key(GLFW_KEY_ESCAPE).frames(2);
  EXPECT_FALSE(search().is_open());
  driver().key(GLFW_KEY_F, true).frames(3);
  EXPECT_TRUE(search().is_open());
}

TEST_F(Text, MarksOfHitsGoWithTheField) {
  state().token_colour = "none";
  find("word30");
  driver().key(GLFW_KEY_ENTER).frames(3);
  std::vector<TokenText::Place> places;
  for (const auto& hit : search().hits()) {
    if (place(hit.first).visible()) places.push_back(place(hit.first));
  }
  ASSERT_GE(places.size(), 3U);
  const TokenText::Place unmarked = place(search().hit()->first - 3);
  const auto with = driver().picture();
  driver().move(5, 5).key(GLFW_KEY_A, true).key(GLFW_KEY_DELETE).frames(2);
  ASSERT_EQ(search().query, "");
  const auto without = driver().picture();
  for (const TokenText::Place& at : places) EXPECT_GT(difference(with, without, at), 0.3);
  ASSERT_TRUE(unmarked.visible());
  EXPECT_EQ(difference(with, without, unmarked), 0.0);
}

TEST_F(Text, TheTokensOfAPlaceAreFollowedByKeyAndByButton) {
  state().tile_count = 2;
  state().tiles[1] = {.view = "follow"};
  find("the needle");
  driver().key(GLFW_KEY_ENTER).frames(3);
  EXPECT_EQ(state().followed, "auto") << "looking at a place follows nothing";
  ImGui::GetIO().KeyAlt = true;
  driver().key(GLFW_KEY_ENTER);
  ImGui::GetIO().KeyAlt = false;
  driver().settle();
  EXPECT_EQ(search().place_text(), "2 of 3") << "and stays there";
  EXPECT_EQ(state().followed, "700-701");
  EXPECT_EQ(state().grid_measure, "followed");
  EXPECT_EQ(state().selection.token, 700);
  EXPECT_EQ(state().tiles[1].choices.at("tokens"), "700-701") << "in the view of followed tokens";
  driver().key(GLFW_KEY_F3).frames(2);
  driver().press_on("##bottom", {"Follow##hit"}).settle();
  EXPECT_EQ(state().followed, "1195-1196");
  EXPECT_EQ(state().selection.token, 1195);
  EXPECT_EQ(w().grid.error(), "");
}

TEST_F(Text, ThePanelOpensForTheSearchAndAClosedFieldOpensByF3) {
  driver().key(GLFW_KEY_F8).frames(2);
  ASSERT_FALSE(state().bottom_panel);
  driver().key(GLFW_KEY_F3).frames(3);
  EXPECT_TRUE(state().bottom_panel);
  EXPECT_TRUE(search().is_open());
  driver().type("t");
  EXPECT_EQ(search().query, "t");
  EXPECT_EQ(state().theme, window::Theme::light) << "T is a letter here";
  driver().press_on("##bottom", {"Close##find"});
  EXPECT_FALSE(search().is_open());
}

TEST_F(Text, WhatIsChosenElsewhereComesIntoSight) {
  state().selection.token = 30;
  driver().frames(2);
  EXPECT_TRUE(place(30).visible());
  EXPECT_FALSE(place(900).visible());
  state().selection.first_token = 890;
  state().selection.last_token = 905;
  driver().settle();
  EXPECT_TRUE(place(890).visible() && place(905).visible()) << "a range";
  state().grid_measure = "followed";
  state().followed = "500-504";
  driver().settle();
  EXPECT_TRUE(place(500).visible() && place(504).visible()) << "followed tokens";
  const auto followed = driver().picture();
  const TokenText::Place at = place(502), beside = place(506);
  state().followed = "501";
  driver().settle();
  EXPECT_GT(difference(followed, driver().picture(), at), 0.02) << "they are marked";
  EXPECT_EQ(difference(followed, driver().picture(), beside), 0.0);
  state().followed = "question";
  driver().settle();
  EXPECT_TRUE(place(kLength - 8 - 40).visible()) << "a segment by its name";
  driver().wheel(place(kLength - 48).x, place(kLength - 48).y, 30).frames(2);
  EXPECT_FALSE(place(kLength - 48).visible()) << "nothing holds it there";
}

TEST_F(Text, SegmentsAndWhatWasGeneratedHaveTheirNames) {
  EXPECT_EQ(text().name_before(0), "context");
  EXPECT_EQ(text().name_before(1), "");
  EXPECT_EQ(text().name_before(kLength - 48), "question");
  EXPECT_EQ(text().name_before(kLength - 8), "answer · generated");
  EXPECT_EQ(text().name_before(kLength - 7), "");
  write("needle.h5", texts());
  mark_segment(folder_ / "needle.h5", "needle", 10, 12);
  open("needle.h5");
  state().selection.token = 0;
  driver().settle();
  EXPECT_EQ(text().name_before(10), "needle");
  EXPECT_EQ(text().name_before(13), "context") << "where it ends";
  const TokenText::Place before = place(12), after = place(13);
  ASSERT_EQ(before.y, after.y);
  EXPECT_GT(after.x, before.x + before.width + 40) << "the name's room";

  // A click on a name follows the segment: in the text, and above a strip.
  driver().click(place(10).x - 20, place(10).y + place(10).height / 2).frames(2);
  EXPECT_EQ(state().followed, "needle");
  EXPECT_EQ(state().grid_measure, "followed");
  state().followed = "auto";
  state().tiles[0] = {.view = "filmstrip"};
  driver().settle();
  const window::Tile& tile = w().tiles[0];
  ASSERT_NE(tile.scene(), nullptr) << tile.error();
  const auto name = std::find_if(
      tile.scene()->items.begin(), tile.scene()->items.end(), [](const figure::Item& item) {
        const auto* text = std::get_if<figure::Text>(&item);
        return text != nullptr && text->text.find("question") != std::string::npos;
      });
  ASSERT_NE(name, tile.scene()->items.end());
  const figure::Rect box = std::get<figure::Text>(*name).bounds();
  const auto [x, y] = on_screen({box.x + 4.0, box.centre().y});
  driver().click(x, y).frames(2);
  EXPECT_EQ(state().followed, "question");
  state().tiles[0] = window::default_state().tiles[0];

  write("given.h5", texts());
  write_given(folder_ / "given.h5", 5);
  open("given.h5");
  EXPECT_EQ(text().name_before(kLength - 8), "answer · given");
  EXPECT_EQ(text().name_before(kLength - 3), "answer · generated");
}

TEST_F(Text, NumbersOfFollowedTokensAreOfOneTraceAndNamesOfEachThatHasThem) {
  write("other.h5", {" a", " b"});
  state().grid_measure = "followed";
  state().followed = "500-504";
  state().tiles[0] = {.view = "follow", .choices = {{"tokens", "500-504"}}};
  driver().settle();
  open("other.h5");
  EXPECT_EQ(state().followed, "auto");
  EXPECT_FALSE(state().tiles[0].choices.contains("tokens"));
  state().followed = "question";
  open("text.h5");
  EXPECT_EQ(state().followed, "question");
}

TEST_F(Text, FourThousandTokensAreDrawnInLessThanTwoMilliseconds) {
  constexpr int kMany = 4000;
  TokenTable table;
  for (int i = 0; i < kMany; ++i)
    table.text.push_back(i % 40 == 39 ? "\n" : " word" + std::to_string(i));
  window::StepTokens tokens;
  tokens.states.assign(kMany, figure::TokenState::retained);
  tokens.leaving.assign(kMany, false);
  tokens.scores.assign(kMany, 0.5F);
  tokens.ranks.assign(kMany, 1);
  tokens.scored = kMany;
  driver().resize(2560, 1440);
  TokenText widget;
  const auto milliseconds = [&](bool anew) {
    std::vector<double> all;
    for (int frame = 0; frame < 24; ++frame) {
      driver().surface.begin_frame();
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({2560, 1300});
      ImGui::Begin("##whole", nullptr, ImGuiWindowFlags_NoDecoration);
      ImGui::BeginChild("##tokens");
      const auto start = std::chrono::steady_clock::now();
      widget.draw(anew ? std::to_string(frame) : "text",
                  {.fonts = w().fonts,
                   .colours = window::window_colours(window::Theme::light),
                   .table = table,
                   .count = kMany,
                   .prompt = kMany - 200,
                   .given = GivenTokens(),
                   .tokens = &tokens});
      all.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count());
      ImGui::EndChild();
      ImGui::End();
      driver().surface.drop_frame();
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];  // the machine may be busy
  };
  milliseconds(false);
  const int before = widget.layouts();
  const double still = milliseconds(false);
  EXPECT_EQ(widget.layouts(), before) << "laid out once";
  const double anew = milliseconds(true);
  EXPECT_EQ(widget.layouts(), before + 24);
  std::printf("4000 tokens: %.2f ms a frame, %.2f ms where they are laid out in each\n", still,
              anew);
  EXPECT_LT(still, 2.0);
  EXPECT_LT(still, anew);
}

TEST_F(Text, ALoopBeginsWithHowOftenItStands) {
  write_synthetic_trace(folder_ / "loop.h5", {.layers = 1, .prompt_length = 64, .generated = 40});
  make_loop(folder_ / "loop.h5", 76, 4);
  open_file(folder_ / "loop.h5");
  ASSERT_NE(w().results.trace(), nullptr) << w().notice;
  EXPECT_EQ(text().name_before(76), "loop, 7 times");
  EXPECT_EQ(text().name_before(80), "") << "where the span stands again";
  EXPECT_EQ(text().name_before(64), "answer · generated");
}

}  // namespace
}  // namespace kvloupe::test
