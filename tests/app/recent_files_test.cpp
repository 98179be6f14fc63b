#include "app/window/state/recent_files.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace kvloupe::window {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RecentFiles, KeepTheNewestFirstAndSurvive) {
  const test::TemporaryFolder folder;
  const auto list = folder.path() / "state" / "recent";
  {
    RecentFiles recent(list);
    EXPECT_THAT(recent.files(), IsEmpty());
    recent.add("/a.h5");
    recent.add("/b.h5");
    recent.add("/a.h5");
  }
  EXPECT_THAT(RecentFiles(list).files(), ElementsAre("/a.h5", "/b.h5"));
  RecentFiles many(list);
  for (int i = 0; i < 50; ++i) many.add("/" + std::to_string(i) + ".h5");
  EXPECT_EQ(RecentFiles(list).files().size(), 8U);
  EXPECT_EQ(RecentFiles(list).files().front(), "/49.h5");
}

TEST(RecentFiles, ABrokenOrUnwritableListIsNoFuss) {
  const test::TemporaryFolder folder;
  const auto list = folder.path() / "recent";
  std::ofstream(list, std::ios::binary)
      << std::string("\0\1\2garbage\nrelative/path\n/good.h5\n/bad\x01.h5\n", 42);
  EXPECT_THAT(RecentFiles(list).files(), ElementsAre("/good.h5"));
  RecentFiles nowhere("/proc/none/recent");
  EXPECT_NO_THROW(nowhere.add("/a.h5"));
  EXPECT_THAT(nowhere.files(), ElementsAre("/a.h5"));
  RecentFiles folder_list(folder.path());
  EXPECT_NO_THROW(folder_list.add("/a.h5"));
}

}  // namespace
}  // namespace kvloupe::window
