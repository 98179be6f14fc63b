// The messages of the window's command line without a display: a named file's problem comes first.

#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct WithoutDisplay : testing::Test, test::Caller {
  void SetUp() override {
    test::write_synthetic_trace(folder_.path() / "good.h5");
    std::ofstream(folder_.path() / "truncated.h5") << "\x89HDF";
    std::ofstream(folder_.path() / "moved.json")
        << R"({"format":"kvloupe-session","format_version":1,"trace":"/nowhere/moved.h5"})";
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  test::TemporaryFolder folder_;
  test::EnvironmentVariable x11_{"DISPLAY"}, wayland_{"WAYLAND_DISPLAY"};
};

TEST_F(WithoutDisplay, ANamedFilesProblemComesFirst) {
  for (const std::string& file :
       {path("missing.h5"), path("truncated.h5"), folder_.path().string(), path("missing.json")}) {
    EXPECT_EQ(call({file}), 1);
    EXPECT_THAT(error, HasSubstr(file));
    EXPECT_THAT(error, Not(HasSubstr("display")));
    EXPECT_EQ(call({file, "--screenshot", path("picture.png")}), 1);
    EXPECT_THAT(error, HasSubstr(file));
  }
  EXPECT_EQ(call({"--session", path("moved.json"), "--screenshot", path("picture.png")}), 1);
  EXPECT_THAT(error, HasSubstr("/nowhere/moved.h5"));
  EXPECT_FALSE(std::filesystem::exists(path("picture.png")));
}

TEST_F(WithoutDisplay, AGoodFileMissesTheDisplay) {
  EXPECT_EQ(call({path("good.h5")}), 1);
  EXPECT_THAT(error, HasSubstr("no display"));
}

TEST_F(WithoutDisplay, NoFileIsDroppedWithoutAWord) {
  for (const char* name : {"a.json", "b.json"})
    std::ofstream(path(name)) << R"({"format":"kvloupe-session","format_version":1})";
  EXPECT_EQ(call({path("a.json"), path("b.json")}), 2);
  EXPECT_THAT(error, HasSubstr("the window opens one session; leave one of them out"));
  EXPECT_EQ(call({path("a.json"), "--session", path("b.json")}), 2);
}

TEST_F(WithoutDisplay, TheDemoNamesTheFolderThatCannotKeepIt) {
  std::ofstream(folder_.path() / "file") << "no folder";
  const test::EnvironmentVariable cache("XDG_CACHE_HOME", path("file"));
  EXPECT_EQ(call({"demo"}), 1);
  EXPECT_THAT(error, HasSubstr(path("file") + "/kvloupe"));
  EXPECT_THAT(error, HasSubstr("XDG_CACHE_HOME"));
  EXPECT_EQ(call({"demo", "--size", "12"}), 2) << "the command line comes before the work";
}

}  // namespace
}  // namespace kvloupe
