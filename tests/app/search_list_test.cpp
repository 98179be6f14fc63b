#include "app/window/widgets/search_list.h"

#include <gmock/gmock.h>

namespace kvloupe::window {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<SearchItem> items() {
  return {{.title = "Attention map", .group = "Keys", .help = "softmax"},
          {.title = "Film strip", .group = "Kept entries", .help = "tokens by steps"},
          {.title = "Similarity map", .group = "Keys", .help = "cosine; KeyDiff figure 2"},
          {.title = "Heatmap of sinks", .group = "Sinks", .help = "attention a token receives"}};
}

TEST(Search, AnEmptyQueryKeepsTheOrder) {
  EXPECT_THAT(search(items(), ""), ElementsAre(0, 1, 2, 3));
}

TEST(Search, TheTitleComesBeforeTheRestAndItsStartBeforeItsInside) {
  EXPECT_THAT(search(items(), "attention"), ElementsAre(0, 3));
  EXPECT_THAT(search(items(), "map"), ElementsAre(0, 2, 3)) << "a word's start before its inside";
}

TEST(Search, EveryWordMustBeThereInAnyOrderAndCase) {
  EXPECT_THAT(search(items(), "MAP sim"), ElementsAre(2));
  EXPECT_THAT(search(items(), "keydiff"), ElementsAre(2)) << "in the help";
  EXPECT_THAT(search(items(), "keys map"), ElementsAre(0, 2)) << "in the group";
  EXPECT_THAT(search(items(), "map nowhere"), IsEmpty());
}

TEST(Search, AFigureIsFoundByItsNameOnTheCommandLine) {
  const std::vector<SearchItem> views = {{.title = "Film strip", .name = "filmstrip"},
                                         {.title = "Keys in two components", .name = "pca"}};
  EXPECT_THAT(search(views, "pca"), ElementsAre(1));
}

TEST(Search, WhatCannotBeChosenComesLastInItsGroup) {
  std::vector<SearchItem> some = items();
  some.insert(some.begin() + 1, {.title = "Map of keys", .group = "Keys"});
  some[0].why_not = "Open a trace first.";
  EXPECT_THAT(search(some, ""), ElementsAre(1, 0, 2, 3, 4));
  EXPECT_THAT(search(some, "map"), ElementsAre(1, 3, 4, 0)) << "of the best places, too";
}

TEST(Search, AnyBytesAreSearchedFor) {
  EXPECT_THAT(search(items(), "\xff\xfe"), IsEmpty());
  EXPECT_THAT(search({}, "a"), IsEmpty());
}

}  // namespace
}  // namespace kvloupe::window
