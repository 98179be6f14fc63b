// kvloupe cache, as a person calls it.

#include "analysis/trace/kept_files.h"
#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct CliCache : testing::Test {
  void SetUp() override {
    root_ = cache_folder();
    fs::create_directories(root_ / "cases");
    test::write_synthetic_trace(root_ / kTrace, {.predictions = false});
    test::write_synthetic_trace(root_ / kCase, {.predictions = false});
    std::ofstream(root_ / "notes.txt") << "mine";
  }
  int cache(const std::vector<std::string>& more) {
    const test::Called called = test::call({"cache"}, more);
    out_ = called.out;
    error_ = called.error;
    return called.code;
  }
  static constexpr const char* kTrace = "demo-needle-0123abcd.h5";
  static constexpr const char* kCase = "cases/results-3-full-0123456789abcdef.h5";
  test::TemporaryFolder folder_;
  fs::path root_;
  test::EnvironmentVariable cache_{"XDG_CACHE_HOME", (folder_ / "XDG_CACHE_HOME").string()};
  test::EnvironmentVariable config_{"XDG_CONFIG_HOME", (folder_ / "XDG_CONFIG_HOME").string()};
  std::string out_, error_;
};

TEST_F(CliCache, ListsWhatIsKept) {
  ASSERT_EQ(cache({}), 0) << error_;
  EXPECT_THAT(out_, HasSubstr("trace of the demo model"));
  EXPECT_THAT(out_, HasSubstr("104 tokens, full cache"));
  EXPECT_THAT(out_, HasSubstr(kCase));
  EXPECT_THAT(out_, HasSubstr("2 files in " + root_.string()));
  EXPECT_THAT(out_, HasSubstr("of at most 10 GB"));
  EXPECT_THAT(out_, Not(HasSubstr("notes.txt")));
  ASSERT_EQ(cache({"--json"}), 0);
  const auto list = nlohmann::json::parse(out_);
  EXPECT_EQ(list["limit"], 10'000'000'000);
  ASSERT_EQ(list["files"].size(), 2U);
  EXPECT_EQ(list["files"][0]["bytes"], fs::file_size(list["files"][0]["path"].get<std::string>()));
}

TEST_F(CliCache, RemovesAllButWhatIsOpen) {
  {
    const Trace open(root_ / kTrace);
    ASSERT_EQ(cache({"--clear"}), 0) << error_;
    EXPECT_THAT(out_, StartsWith("removed 1 file, "));
    EXPECT_THAT(out_, HasSubstr("1 file in use stayed"));
    EXPECT_TRUE(fs::exists(root_ / kTrace));
    EXPECT_FALSE(fs::exists(root_ / kCase));
  }
  ASSERT_EQ(cache({"--clear"}), 0);
  EXPECT_FALSE(fs::exists(root_ / kTrace));
  EXPECT_TRUE(fs::exists(root_ / "notes.txt"));
}

TEST_F(CliCache, KeepsALimit) {
  ASSERT_EQ(cache({"--limit", "5 GB"}), 0) << error_;
  EXPECT_EQ(out_, "the limit is 5.0 GB; removed 0 files, 0 bytes\n");
  EXPECT_EQ(cache_limit(), 5'000'000'000U);
  ASSERT_EQ(cache({"--limit", std::to_string(fs::file_size(root_ / kCase)) + " bytes"}), 0);
  EXPECT_THAT(out_, HasSubstr("removed 1 file"));
  EXPECT_NE(cache({"--limit", "much"}), 0);
  EXPECT_THAT(error_, HasSubstr("\"much\" is no size; give one such as 10 GB"));
}

TEST_F(CliCache, SaysThatThereIsNoFolder) {
  cache_.set({});
  const test::EnvironmentVariable home("HOME");
  EXPECT_NE(cache({}), 0);
  EXPECT_THAT(error_, HasSubstr("set XDG_CACHE_HOME"));
}

}  // namespace
}  // namespace kvloupe
