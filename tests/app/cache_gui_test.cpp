// The sheet of the cache folder, by mouse and keys.

#include "analysis/trace/kept_files.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct CacheSheetTest : WindowTest {
  void prepare() override {
    fs::create_directories(cache() / "cases");
    write_synthetic_trace(open(), {.predictions = false});
    write_synthetic_trace(other(), {.predictions = false});
    window::Workspace::Host host;
    host.demo.cache = cache();
    start(1280, 800, host);
    open_file(open().string());
    driver_->key(GLFW_KEY_K, true, true).settle();
    ASSERT_TRUE(sheet().is_open());
  }
  window::CacheSheet& sheet() { return w().sheets.cache; }
  fs::path cache() const { return folder_ / "cache"; }
  fs::path open() const { return cache() / "demo-needle-0123abcd.h5"; }
  fs::path other() const { return cache() / "cases/results-3-full-0123456789abcdef.h5"; }

  EnvironmentVariable config_{"XDG_CONFIG_HOME", (folder_ / "config").string()};
};

TEST_F(CacheSheetTest, ListsFilesWithTheirModelAndRemovesOne) {
  const auto lines = sheet().lines();
  ASSERT_EQ(lines.size(), 2U);
  for (const auto& line : lines) {
    EXPECT_THAT(line.about, HasSubstr("104 tokens, full cache"));
    EXPECT_EQ(line.file.in_use, line.file.path == open());
    EXPECT_EQ(line.file.bytes, fs::file_size(line.file.path));
  }
  ASSERT_EQ(sheet().remove_places().size(), 1U) << "the open trace cannot be removed";
  const auto [file, place] = sheet().remove_places()[0];
  EXPECT_EQ(file, other());
  driver_->click(place.x, place.y).settle();
  EXPECT_FALSE(fs::exists(other()));
  EXPECT_THAT(w().notice, HasSubstr("Removed 1 file, "));
  EXPECT_EQ(sheet().lines().size(), 1U);
  EXPECT_TRUE(sheet().remove_places().empty());
  driver_->key(GLFW_KEY_ESCAPE).frames(2);
  EXPECT_FALSE(sheet().is_open());
}

TEST_F(CacheSheetTest, RemovesAllOnlyAfterASecondClick) {
  driver_->press_on("##cache", {"Remove all…"}).settle();
  EXPECT_TRUE(fs::exists(other())) << "one click is not enough";
  driver_->press_on("##cache", {"Keep them"}).settle();
  driver_->press_on("##cache", {"Remove all…"}).settle();
  driver_->press_on("##cache", {"Remove them all"}).settle();
  EXPECT_FALSE(fs::exists(other()));
  EXPECT_TRUE(fs::exists(open())) << "the window shows this one";
  EXPECT_THAT(w().notice, HasSubstr("1 file in use stayed"));
}

}  // namespace
}  // namespace kvloupe::test
