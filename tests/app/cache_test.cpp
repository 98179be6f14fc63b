// kvloupe cache, as a person calls it.

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/trace/kept_files.h"
#include "analysis/trace/trace.h"
#include "tests/app/cli_call.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

struct CliCache : testing::Test {
  void SetUp() override {
    for (const char* name : kVariables) {
      const char* value = std::getenv(name);
      before_.emplace_back(value ? value : "");
      setenv(name, (folder_ / name).c_str(), 1);
    }
    root_ = cache_folder();
    fs::create_directories(root_ / "cases");
    test::write_synthetic_trace(root_ / kTrace, {.predictions = false});
    test::write_synthetic_trace(root_ / kCase, {.predictions = false});
    std::ofstream(root_ / "notes.txt") << "mine";
  }
  void TearDown() override {
    for (std::size_t i = 0; i < std::size(kVariables); ++i) {
      before_[i].empty() ? unsetenv(kVariables[i]) : setenv(kVariables[i], before_[i].c_str(), 1);
    }
  }
  int cache(const std::vector<std::string>& more) {
    const test::Called called = test::call({"cache"}, more);
    out_ = called.out;
    error_ = called.error;
    return called.code;
  }
  static constexpr const char* kVariables[] = {"XDG_CACHE_HOME", "XDG_CONFIG_HOME"};
  static constexpr const char* kTrace = "demo-needle-0123abcd.h5";
  static constexpr const char* kCase = "cases/results-3-full-0123456789abcdef.h5";
  test::TemporaryFolder folder_;
  fs::path root_;
  std::vector<std::string> before_;
  std::string out_, error_;
};

TEST_F(CliCache, ListsWhatIsKept) {
  ASSERT_EQ(cache({}), 0) << error_;
  EXPECT_THAT(out_, HasSubstr("trace of the demo model"));
  EXPECT_THAT(out_, HasSubstr("104 tokens, full cache"));
  EXPECT_THAT(out_, HasSubstr(kCase));
  EXPECT_THAT(out_, HasSubstr("2 files in " + root_.string()));
  EXPECT_THAT(out_, HasSubstr("of at most 10 GB"));
  EXPECT_THAT(out_, testing::Not(HasSubstr("notes.txt")));
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
  unsetenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  unsetenv("HOME");
  EXPECT_NE(cache({}), 0);
  EXPECT_THAT(error_, HasSubstr("set XDG_CACHE_HOME"));
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace kvloupe
