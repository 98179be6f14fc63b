// A file is written beside its target and renamed; the rest of the process notices nothing.

#include "analysis/output_file.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "analysis/error.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(OutputFile, IsNotThereUntilItIsWhole) {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "out.txt";
  std::ofstream(target) << "before";
  {
    OutputFile out(target.string());
    out.write("half");
    EXPECT_EQ(text_of(target), "before");
    EXPECT_EQ(files_in(folder.path()), 2U);
  }
  EXPECT_EQ(text_of(target), "before");
  EXPECT_EQ(files_in(folder.path()), 1U) << "what was begun is gone";
  OutputFile out(target.string());
  out.write("after");
  out.finish();
  EXPECT_EQ(text_of(target), "after");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, HasThePermissionsOfAnyNewFile) {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "out.txt";
  OutputFile out(target.string());
  out.finish();
  std::ofstream(folder / "plain.txt") << "x";
  EXPECT_EQ(fs::status(target).permissions(), fs::status(folder / "plain.txt").permissions());
}

TEST(OutputFile, LeavesTheUmaskOfOtherThreadsAlone) {
  const test::TemporaryFolder folder;
  std::atomic<bool> over = false;
  std::atomic<bool> open_to_all = false;
  std::thread other([&] {
    const fs::path path = folder / "other.txt";
    while (!over) {
      std::ofstream(path) << "x";
      const auto others = fs::status(path).permissions() & fs::perms::others_write;
      if (others != fs::perms::none) open_to_all = true;
      fs::remove(path);
    }
  });
  const mode_t before = umask(022);
  for (int i = 0; i < 2000; ++i) OutputFile out((folder / "out.txt").string());
  over = true;
  other.join();
  umask(before);
  EXPECT_FALSE(open_to_all);
}

TEST(OutputFile, SaysWhereItCannotWrite) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(OutputFile((folder / "no folder" / "out.txt").string()), FileError);
  EXPECT_THROW(OutputFile(folder.path().string()), FileError) << "a folder";
}

}  // namespace
}  // namespace kvloupe
