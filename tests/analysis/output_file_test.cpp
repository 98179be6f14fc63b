// A file is there once it is whole; a program that is killed leaves the older file; the rest of the
// process notices nothing.

#include "analysis/base/system/output_file.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

namespace kvloupe {
namespace {

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(OutputFile, WhatIsNoRegularFileIsWrittenThrough) {
  const test::TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const bool whole_first : {false, true}) {
    std::string read;
    std::thread reader([&] { read = test::file_text(pipe); });
    if (whole_first) {  // as a trace is written
      UnfinishedFile file(pipe.string());
      ASSERT_EQ(file.error(), 0);
      ASSERT_EQ(write(file.descriptor(), "through", 7), 7);
      EXPECT_EQ(file.put_in_place(), 0);
    } else {
      OutputFile out(pipe.string());
      out.write("through");
      out.finish();
    }
    reader.join();
    EXPECT_EQ(read, "through");
    EXPECT_TRUE(fs::is_fifo(pipe)) << "and it is still what it was";
    EXPECT_EQ(files_in(folder.path()), 1U);
  }
  EXPECT_EQ(place_of_file("/dev/null"), std::nullopt);
  EXPECT_EQ(place_of_file("/proc/self/fd/0"), std::nullopt);
}

TEST(OutputFile, ALinkStaysAndItsFileIsReplaced) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "there");
  std::ofstream(folder / "there/file") << "before";
  fs::create_symlink("there/file", folder / "link");
  fs::create_symlink("there/new", folder / "dangling");
  for (const char* name : {"link", "dangling"}) write_whole_file(folder / name, "after");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(test::file_text(folder / "there/file"), "after");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(test::file_text(folder / "there/new"), "after");
  EXPECT_EQ(files_in(folder / "there"), 2U);
}

TEST(OutputFile, AnInputIsNeverTheOutput) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "in") << "x";
  fs::create_symlink("in", folder / "link");
  EXPECT_THROW(refuse_own_input(folder / "in", {folder / "in"}), FileError);
  EXPECT_THROW(refuse_own_input(folder / "link", {"", folder / "in"}), FileError);
  EXPECT_NO_THROW(refuse_own_input(folder / "out", {folder / "in"}));
  EXPECT_NO_THROW(refuse_own_input("-", {folder / "in"}));
  EXPECT_NO_THROW(refuse_own_input("/dev/null", {"/dev/null"}));
}

TEST(OutputFile, TwoOutputsAreNeverOneFile) {
  const test::TemporaryFolder folder;
  const std::string place = folder / "out", other = folder / "other";
  fs::create_symlink("out", folder / "link");
  for (const std::string& same : {place, (folder / "./out").string(),
                                  (folder / "no/../out").string(), (folder / "link").string()})
    EXPECT_THROW(refuse_same_outputs({place, other, same}), UsageError) << same;
  EXPECT_THROW(refuse_same_outputs({"-", "-"}), UsageError);
  EXPECT_THROW(refuse_same_outputs({"none.csv", "./none.csv"}), UsageError);
  EXPECT_NO_THROW(refuse_same_outputs({place, "", other, "", "-", "/dev/null", "/dev/null"}));
}

TEST(OutputFile, IsNotThereUntilItIsWhole) {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "out.txt";
  std::ofstream(target) << "before";
  {
    OutputFile out(target.string());
    out.write("half");
    EXPECT_EQ(test::file_text(target), "before");
    EXPECT_EQ(files_in(folder.path()), 2U);
  }
  EXPECT_EQ(test::file_text(target), "before");
  EXPECT_EQ(files_in(folder.path()), 1U) << "what was begun is gone";
  OutputFile out(target.string());
  out.write("after");
  out.finish();
  EXPECT_EQ(test::file_text(target), "after");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

struct Unfinished : testing::Test {
  static void fill(const UnfinishedFile& file, const std::string& text) {
    EXPECT_EQ(write(file.descriptor(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  const test::TemporaryFolder folder_;
  const fs::path target_ = folder_ / "out.txt";
};

TEST_F(Unfinished, TakesTheTargetsPlaceOnceItIsWhole) {
  for (const std::string text : {"first", "second, in its place"}) {
    UnfinishedFile file(target_.string());
    ASSERT_EQ(file.error(), 0);
    fill(file, text);
    EXPECT_EQ(test::file_text(file.path()), text) << "this process can open it";
    EXPECT_NE(test::file_text(target_), text);
    ASSERT_EQ(file.put_in_place(), 0);
    EXPECT_EQ(test::file_text(target_), text);
  }
  EXPECT_EQ(files_in(folder_.path()), 1U);
  std::ofstream(folder_ / "plain.txt") << "x";
  EXPECT_EQ(fs::status(target_).permissions(), fs::status(folder_ / "plain.txt").permissions());
}

TEST_F(Unfinished, IsGoneIfItIsNotPutInPlace) {
  { UnfinishedFile file(target_.string()); }
  EXPECT_EQ(files_in(folder_.path()), 0U);
  fs::create_directory(target_);  // which a file cannot replace
  {
    UnfinishedFile file(target_.string());
    EXPECT_NE(file.put_in_place(), 0);
  }
  EXPECT_EQ(files_in(folder_.path()), 1U);
}

TEST(UnfinishedFile, SaysWhyItCannotBeMade) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(UnfinishedFile((folder / "no folder" / "out.txt").string()).error(), ENOENT);
  std::ofstream(folder / "file") << "x";
  EXPECT_EQ(UnfinishedFile((folder / "file" / "out.txt").string()).error(), ENOTDIR);
}

TEST(UnfinishedFile, AKilledProgramLeavesTheOlderFileAndItsTemporaryName) {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "out.txt";
  std::ofstream(target) << "before";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    OutputFile out(target.string());
    out.write(std::string(1 << 20, 'x'));
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(test::file_text(target), "before");
  EXPECT_EQ(files_in(folder.path()), 2U);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(2));
  write_whole_file(target, "after");
  EXPECT_EQ(test::file_text(target), "after");
  EXPECT_EQ(files_in(folder.path()), 1U) << "nobody holds its lock";
}

TEST(UnfinishedFile, AProgramEndedByCtrlCOrItsLikeLeavesTheOlderFileAlone) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const test::TemporaryFolder folder;
    const fs::path target = folder / "out.txt";
    std::ofstream(target) << "before";
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      ::signal(signal, SIG_DFL);
      remove_unfinished_files_at_signals();
      write_whole_file(folder / "another.txt", "whole");  // its place in the list is taken again
      OutputFile first((folder / "first.txt").string()), out(target.string());
      out.write(std::string(1 << 20, 'x'));
      if (write(ready[1], "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    close(ready[0]);
    close(ready[1]);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(test::file_text(target), "before");
    EXPECT_EQ(test::file_text(folder / "another.txt"), "whole");
    EXPECT_EQ(files_in(folder.path()), 2U);
  }
}

TEST(UnfinishedFile, AForkedChildRemovesNothingOfItsParent) {
  const test::TemporaryFolder folder;
  const UnfinishedFile file((folder / "out.txt").string());
  const pid_t child = fork();
  if (child == 0) {
    remove_unfinished_files();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(UnfinishedFile, TheNextWriteRemovesWhatKilledProgramsLeft) {
  const test::TemporaryFolder folder;
  const auto make = [&](const std::string& name, std::chrono::hours age) {
    std::ofstream(folder / name) << "half";
    fs::last_write_time(folder / name, fs::file_time_type::clock::now() - age);
    return folder / name;
  };
  using std::chrono::hours;
  const fs::path left = make("out.txt.0123abcd.tmp", hours(2));
  const fs::path young = make("out.txt.0123abce.tmp", hours(0));
  const fs::path held = make("out.txt.0123abcf.tmp", hours(2));
  const fs::path of_another = make("other.txt.0123abcd.tmp", hours(2));
  const fs::path of_a_person = make("out.txt.last.tmp", hours(2));
  fs::create_directory(folder / "out.txt.01234567.tmp");
  fs::create_symlink(of_another, folder / "out.txt.76543210.tmp");
  const int writer = open(held.c_str(), O_RDWR);
  ASSERT_EQ(flock(writer, LOCK_EX), 0);
  write_whole_file(folder / "out.txt", "whole");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(young)) << "it may have a writer where there are no locks";
  EXPECT_TRUE(fs::exists(held)) << "it has a writer";
  EXPECT_TRUE(fs::exists(of_another));
  EXPECT_TRUE(fs::exists(of_a_person));
  EXPECT_TRUE(fs::exists(folder / "out.txt.01234567.tmp")) << "a folder";
  EXPECT_TRUE(fs::is_symlink(folder / "out.txt.76543210.tmp"));
  close(writer);
  write_whole_file(folder / "out.txt", "whole");
  EXPECT_FALSE(fs::exists(held)) << "its writer is gone";
}

TEST(UnfinishedFile, ALockedOneIsNoLeftover) {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "out.txt";
  UnfinishedFile slow(target.string());
  fs::last_write_time(slow.path(), fs::file_time_type::clock::now() - std::chrono::hours(2));
  write_whole_file(target, "other");
  EXPECT_EQ(slow.put_in_place(), 0);
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
