#include "app/window/widgets/text_search.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace kvloupe::window {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

TEST(TextSearch, FindsTextAcrossTheBordersOfTokens) {
  const Texts texts = {"The", " hid", "den num", "ber", " is", " 7"};
  EXPECT_THAT(find_text(texts, "hidden number"), ElementsAre(TextHit{1, 1, 3, 3}));
  EXPECT_THAT(find_text(texts, "e"),
              ElementsAre(TextHit{0, 2, 0, 3}, TextHit{2, 1, 2, 2}, TextHit{3, 1, 3, 2}));
  EXPECT_THAT(find_text(texts, "hidden  number"), IsEmpty());
  EXPECT_THAT(find_text(texts, ""), IsEmpty());
  EXPECT_THAT(find_text({}, "a"), IsEmpty());
}

TEST(TextSearch, CaseDoesNotCountInAnyAlphabet) {
  const Texts texts = {"Über", " STRASSE", " Ελλάδα", " МОСКВА", " 😀", "🎉"};
  EXPECT_THAT(find_text(texts, "üBER"), ElementsAre(TextHit{0, 0, 0, 5}));
  EXPECT_THAT(find_text(texts, "strasse"), ElementsAre(TextHit{1, 1, 1, 8}));
  EXPECT_EQ(find_text(texts, "ΕΛΛΆΔΑ").size(), 1U);
  EXPECT_EQ(find_text(texts, "москва").size(), 1U);
  EXPECT_THAT(find_text(texts, "🎉"), ElementsAre(TextHit{5, 0, 5, 4})) << "and no other sign";
}

TEST(TextSearch, ASpaceAlsoStandsForALineBreak) {
  const Texts texts = {"end.", "↵", "Next→cell"};
  EXPECT_THAT(find_text(texts, ". next cell"), ElementsAre(TextHit{0, 3, 2, 11}));
}

TEST(TextSearch, HitsDoNotOverlapAndHalfACharacterIsNone) {
  EXPECT_EQ(find_text(Texts{"aaaa"}, "aa").size(), 2U);
  EXPECT_EQ(find_text(Texts{"é"}, "\xA9").size(), 0U);
  EXPECT_EQ(find_text(Texts{"a\xFF"}, "\xFF").size(), 1U) << "no text loses its way";
}

TEST(TextSearch, GoesRoundAndSaysWhereItIs) {
  const Texts texts = {"a", "b", "a", "B", "a"};
  TextSearch search;
  EXPECT_EQ(search.place_text(), "");
  search.query = "a";
  search.follow("text", texts);
  EXPECT_EQ(search.place_text(), "1 of 3");
  search.go(-1);
  EXPECT_EQ(search.place_text(), "3 of 3");
  search.go(1);
  search.go(1);
  EXPECT_EQ(search.hit()->first, 2);
  search.query = "ab";
  search.follow("text", texts);
  EXPECT_EQ(search.place_text(), "2 of 2") << "the one in hand goes on";
  search.query = "b";
  search.follow("text", texts);
  EXPECT_EQ(search.hit()->first, 3);
  search.follow("another text", Texts{"x"});
  EXPECT_EQ(search.place_text(), "not found");
  EXPECT_EQ(search.hit(), nullptr);
  search.go(1);
  EXPECT_EQ(search.current(), -1);
}

}  // namespace
}  // namespace kvloupe::window
