// The cache folder: what belongs to it, what is in use, and what goes first.
#include "analysis/trace/kept_files.h"

#include <fcntl.h>

#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr const char* kBegin = "\x89HDF\r\n\x1a\n";

struct KeptFiles : testing::Test {
  void SetUp() override { fs::create_directories(root() / "cases"); }
  fs::path root() const { return folder_.path() / "cache"; }
  /// A file of so many bytes that was last written so many seconds ago.
  fs::path file(const std::string& name, std::size_t bytes, long age,
                const std::string& begin = kBegin) const {
    const fs::path path = root() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << begin << std::string(bytes - begin.size(), 'x');
    set_age(path, age);
    return path;
  }
  static void set_age(const fs::path& path, long age) {
    const timespec then{time(nullptr) - age, 0};
    const timespec both[] = {then, then};
    utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const KeptFile& kept : CacheFolder(root()).files())
      names.push_back(kept.path.lexically_relative(root()).string());
    return names;
  }
  TemporaryFolder folder_;
};

const std::string kDemo = "demo-needle-0123abcd.h5";
const std::string kOtherDemo = "demo-chat-h2o-25-89abcdef.h5";
const std::string kCase = "cases/results-3-full-0123456789abcdef.h5";
const std::string kRescue = "cases/results-3-full-0123456789abcdef.h5.h2o-25.rescue.json";

TEST_F(KeptFiles, ListsItsOwnOldestFirst) {
  file(kDemo, 100, 20);
  file(kCase, 300, 10);
  file(kRescue, 50, 30, "{\"a\": 1}");
  const std::string weights = "weights/" + std::string(64, 'a') + "-bf16-f16.h5";
  file(weights, 70, 5);
  EXPECT_THAT(names(), ElementsAre(kRescue, kDemo, kCase, weights));
  const std::vector<KeptFile> files = CacheFolder(root()).files();
  EXPECT_EQ(files[1].bytes, 100U);
  EXPECT_EQ(files[1].kind, KeptKind::demo_trace);
  EXPECT_EQ(files[2].kind, KeptKind::case_trace);
  EXPECT_EQ(files[3].kind, KeptKind::weights);
}

TEST_F(KeptFiles, LeavesAllElseAlone) {
  const fs::path outside = folder_.path() / "mine.h5";
  std::ofstream(outside, std::ios::binary) << kBegin << "mine";
  std::vector<fs::path> others = {
      file("notes.txt", 20, 9),
      file("checked-traces", 20, 9),
      file("demo-needle.h5", 20, 9),
      file("demo-needle-0123ABCD.h5", 20, 9),  // no digits of ours
      file("cases/mine.h5", 20, 9),
      file("more/" + kDemo, 20, 9),
      file("demo-a-00000001.h5", 20, 9, "no HDF5"),  // another's file under such a name
      file("weights/../" + std::string("demo-b-0000000.h5"), 20, 9)};
  fs::create_symlink(outside, root() / "demo-link-01234567.h5");
  fs::create_directory(root() / "demo-folder-01234567.h5");
  ASSERT_EQ(mkfifo((root() / "demo-pipe-01234567.h5").c_str(), 0600), 0);
  EXPECT_THAT(names(), IsEmpty());
  const CacheFolder folder(root());
  EXPECT_EQ(folder.clear().files, 0);
  // Nor is it removed when somebody names it.
  for (const char* name : {"demo-link-01234567.h5", "notes.txt", "demo-folder-01234567.h5",
                           "../mine.h5", "demo-a-00000001.h5"}) {
    KeptFile named{.path = root() / name};
    EXPECT_EQ(folder.remove(named).files, 0) << name;
  }
  others.push_back(outside);
  others.push_back(root() / "demo-link-01234567.h5");
  others.push_back(root() / "demo-pipe-01234567.h5");
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(fs::symlink_status(other))) << other;
}

TEST_F(KeptFiles, FollowsNoLinkedFolder) {
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directories(elsewhere);
  fs::remove(root() / "cases");
  fs::create_directory_symlink(elsewhere, root() / "cases");
  fs::create_directory_symlink(elsewhere, root() / "last-used");
  const fs::path theirs = elsewhere / fs::path(kCase).filename();
  std::ofstream(theirs, std::ios::binary) << kBegin << "theirs";
  const fs::path demo = file(kDemo, 20, 9);
  EXPECT_THAT(names(), ElementsAre(kDemo));
  { const FileUse use(demo); }
  EXPECT_FALSE(fs::exists(elsewhere / kDemo)) << "a mark was written behind a link";
  CacheFolder(root()).clear();
  EXPECT_TRUE(fs::exists(theirs));
  EXPECT_FALSE(fs::exists(demo));
}

TEST_F(KeptFiles, TheOneUnusedForLongestGoesFirst) {
  const fs::path demo = file(kDemo, 1000, 3000);
  file(kOtherDemo, 1000, 2000);
  file(kCase, 1000, 1000);
  const CacheFolder folder(root());
  { const FileUse use(demo); }  // the oldest is used again
  EXPECT_THAT(names(), ElementsAre(kOtherDemo, kCase, kDemo));
  const Removal removal = folder.keep_below(2500);
  EXPECT_EQ(removal.files, 1);
  EXPECT_EQ(removal.bytes, 1000U);
  EXPECT_THAT(names(), ElementsAre(kCase, kDemo));
  EXPECT_EQ(folder.keep_below(2000).files, 0) << "they fit";
  EXPECT_EQ(folder.keep_below(100, {root() / kCase}).files, 1);
  EXPECT_THAT(names(), ElementsAre(kCase)) << "what was just made stays";
  EXPECT_EQ(folder.clear().files, 1);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(root() / "last-used")) << "marks of files that are gone";
}

TEST_F(KeptFiles, AnOpenTraceStaysUntilItIsClosed) {
  write_synthetic_trace(root() / kDemo, {.predictions = false});
  const CacheFolder folder(root());
  auto trace = std::make_unique<Trace>(root() / kDemo);
  EXPECT_TRUE(folder.files().at(0).in_use);
  Removal removal = folder.clear();
  EXPECT_EQ(removal.files, 0);
  EXPECT_EQ(removal.in_use, 1);
  EXPECT_TRUE(fs::exists(root() / kDemo));
  EXPECT_THAT(about_kept_file(folder.files().at(0)), HasSubstr("104 tokens, full cache"));
  trace.reset();
  EXPECT_FALSE(folder.files().at(0).in_use);
  // To list a file is not to use it.
  set_age(root() / kDemo, 500);
  set_age(root() / "last-used" / kDemo, 500);
  const std::int64_t used = folder.files().at(0).used;
  EXPECT_LT(used, time(nullptr) - 400);
  EXPECT_NE(about_kept_file(folder.files().at(0)), "");
  EXPECT_EQ(folder.files().at(0).used, used);
  EXPECT_EQ(folder.clear().files, 1);
}

TEST_F(KeptFiles, AnotherProcessKeepsItsTrace) {
  write_synthetic_trace(root() / kDemo, {.predictions = false});
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    const FileUse use(root() / kDemo);
    if (write(ready[1], "r", 1) != 1 || read(done[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(CacheFolder(root()).clear().in_use, 1);
  ASSERT_EQ(write(done[1], "d", 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(CacheFolder(root()).clear().files, 1) << "a process that ended holds nothing";
}

TEST_F(KeptFiles, ATraceElsewhereGetsNoMark) {
  const fs::path own = folder_.path() / "own";
  fs::create_directories(own);
  write_synthetic_trace(own / kDemo, {.predictions = false});
  const Trace trace(own / kDemo);
  EXPECT_FALSE(fs::exists(own / "last-used"));
}

TEST_F(KeptFiles, AMissingFolderHoldsNothing) {
  const CacheFolder folder(folder_.path() / "not there");
  EXPECT_THAT(folder.files(), IsEmpty());
  EXPECT_EQ(folder.clear().files, 0);
  EXPECT_FALSE(fs::exists(folder.path()));
}

TEST(CacheLimit, IsKeptAndHasADefault) {
  const TemporaryFolder folder;
  const EnvironmentVariable config("XDG_CONFIG_HOME", folder.path().string());
  EXPECT_EQ(cache_limit(), kDefaultCacheLimit);
  set_cache_limit(123456);
  EXPECT_EQ(cache_limit(), 123456U);
  set_cache_limit(0);
  EXPECT_EQ(cache_limit(), 0U);
  std::ofstream(folder.path() / "kvloupe/cache-limit") << "as much as you like\n";
  EXPECT_EQ(cache_limit(), kDefaultCacheLimit);
}

TEST(CacheLimit, ASizeHasAUnit) {
  EXPECT_EQ(parse_bytes("10 GB"), 10'000'000'000U);
  EXPECT_EQ(parse_bytes("1.5gb"), 1'500'000'000U);
  EXPECT_EQ(parse_bytes("500MB"), 500'000'000U);
  EXPECT_EQ(parse_bytes("12 bytes"), 12U);
  EXPECT_EQ(parse_bytes("0"), 0U);
  for (const char* wrong : {"", "10", "GB", "-1 GB", "10 GiB", "nan GB", "inf MB", "1e30 GB", "x"})
    EXPECT_THROW(parse_bytes(wrong), UsageError) << wrong;
}

}  // namespace
}  // namespace kvloupe::test
