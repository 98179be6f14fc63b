#include "capture/file/mapped_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  fs::path file(std::size_t bytes, const std::string& name = "weights") const {
    std::ofstream(folder_ / name, std::ios::binary) << std::string(bytes, 'w');
    return folder_ / name;
  }
  /// Runs `work` in a process that ends with a line where pages are lost: its wait status.
  int in_child(const std::function<void()>& work) const {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit core{0, 0};
      setrlimit(RLIMIT_CORE, &core);
      if (std::freopen((folder_ / "stderr").c_str(), "w", stderr) == nullptr) _exit(9);
      end_on_lost_pages("kvloupe-capture");
      work();
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }
  std::string said() const {
    std::ifstream in(folder_ / "stderr");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  test::TemporaryFolder folder_;
};

/// Reads every page.
char sum(const MappedFile& map) {
  char sum = 0;
  for (std::uint64_t at = 0; at < map.size(); at += 512)
    sum = static_cast<char>(sum + std::to_integer<char>(map.data()[at]));
  return sum;
}

TEST_F(MappedFileTest, HoldsTheBytes) {
  const MappedFile map(file(10'000));
  EXPECT_EQ(map.size(), 10'000U);
  EXPECT_EQ(std::to_integer<char>(map.data()[9'999]), 'w');
  EXPECT_EQ(MappedFile(file(0, "empty")).size(), 0U);
  EXPECT_THROW(MappedFile(folder_ / "missing"), FileError);
  EXPECT_THROW(MappedFile(folder_.path()), FileError);
}

TEST_F(MappedFileTest, AFileThatShrinksGivesOneLineAndOne) {
  const fs::path path = file(1 << 20);
  const int status = in_child([&] {
    // Others that were mapped before, and one that is gone.
    const MappedFile other(file(5'000, "other"));
    { const MappedFile gone(file(5'000, "gone")); }
    const MappedFile map(path), last(file(5'000, "last"));
    const UnfinishedFile unfinished((folder_ / "trace.h5").string());
    fs::resize_file(path, 10'000);
    volatile char keep = sum(map);
    static_cast<void>(keep);
  });
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(said(), "kvloupe-capture: " + path.string() +
                        ": became shorter while it was read, or its disk fails; try again once "
                        "the file is whole\n");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << "an unfinished output is gone";
}

TEST_F(MappedFileTest, AnotherSignalOfThatKindIsNotHidden) {
  const int status = in_child([&] {
    const MappedFile map(file(5'000));
    raise(SIGBUS);
    while (true) raise(SIGBUS);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace kvloupe
