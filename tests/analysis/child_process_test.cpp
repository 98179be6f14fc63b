#include "analysis/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "analysis/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unwatched.h"

namespace kvloupe {
namespace {

using testing::ElementsAre;

struct Output {
  std::vector<std::string> lines;
  ChildResult result;
};

Output run(const std::string& script) {
  Output out;
  out.result = run_child({"/bin/sh", "-c", script}, test::unwatched,
                         [&](const std::string& line) { out.lines.push_back(line); });
  return out;
}

TEST(ChildProcess, LinesComeWholeAndTheExitCodeIsKept) {
  const Output it = run("printf 'one\\ntw'; sleep 0.1; printf 'o\\nlast'; exit 3");
  EXPECT_THAT(it.lines, ElementsAre("one", "two", "last"));
  EXPECT_EQ(it.result.exit_code, 3);
  EXPECT_EQ(it.result.signal, 0);
}

TEST(ChildProcess, TheLastLineOfStandardErrorIsKept) {
  EXPECT_EQ(run("echo first >&2; echo why >&2; echo >&2; exit 1").result.last_error, "why");
}

TEST(ChildProcess, StandardStreamsMayBeClosed) {
  const pid_t without = fork();
  if (without == 0) {
    for (const int stream : {0, 1, 2}) close(stream);
    bool heard = false;
    const int exit_code =
        run_child({"/bin/sh", "-c", "cat; echo said; echo why >&2"}, test::unwatched,
                  [&](const std::string& line) { heard = line == "said"; })
            .exit_code;
    _exit(heard && exit_code == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(without, &status, 0), without);
  EXPECT_EQ(status, 0);
}

TEST(ChildProcess, ASignalIsTold) {
  const Output it = run("kill -9 $$");
  EXPECT_EQ(it.result.exit_code, -1);
  EXPECT_EQ(it.result.signal, SIGKILL);
}

TEST(ChildProcess, AMuchWritingChildNeitherBlocksNorLosesALine) {
  EXPECT_EQ(run("i=0; while [ $i -lt 5000 ]; do echo 0123456789012345678901234567890123456789; "
                "echo err >&2; i=$((i+1)); done")
                .lines.size(),
            5000U);
}

TEST(ChildProcess, AGrandchildThatKeepsThePipeIsNotWaitedFor) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(run("sleep 30 & echo done").lines, ElementsAre("done"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

TEST(ChildProcess, CancellingStopsItAndWhatItBeganIsItsOwnToRemove) {
  test::TemporaryFolder folder;
  const std::string mark = (folder.path() / "removed").string();
  Progress progress;
  std::thread canceller;
  EXPECT_THROW(
      run_child(
          {"/bin/sh", "-c",
           "trap 'echo yes > " + mark + "; exit 1' TERM; echo up; while :; do sleep 0.05; done"},
          progress,
          [&](const std::string&) { canceller = std::thread([&] { progress.cancel(); }); }),
      Cancelled);
  canceller.join();
  EXPECT_TRUE(std::filesystem::exists(mark)) << "it was asked, not killed";
}

TEST(ChildProcess, WhatDoesNotStopIsEnded) {
  Progress progress;
  std::thread canceller;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(
      run_child({"/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"}, progress,
                [&](const std::string&) { canceller = std::thread([&] { progress.cancel(); }); }),
      Cancelled);
  canceller.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(ChildProcess, OneThatRunsTooLongIsEnded) {
  ChildOptions options;
  options.at_most = std::chrono::milliseconds(200);
  const ChildResult ended = run_child(
      {"/bin/sh", "-c", "trap '' TERM; exec sleep 100"}, test::unwatched, [](const std::string&) {},
      options);
  EXPECT_TRUE(ended.late);
  EXPECT_EQ(ended.signal, SIGKILL);
  options.at_most = std::chrono::seconds(100);
  EXPECT_FALSE(run_child(
                   {"/bin/true"}, test::unwatched, [](const std::string&) {}, options)
                   .late);
}

TEST(ChildProcess, AFileCanBeItsInput) {
  test::TemporaryFolder folder;
  std::ofstream(folder / "text") << "from a file\n";
  const int file = open((folder / "text").c_str(), O_RDONLY | O_CLOEXEC);
  ChildOptions options;
  options.input = file;
  std::vector<std::string> lines;
  run_child(
      {"/bin/cat"}, test::unwatched, [&](const std::string& line) { lines.push_back(line); },
      options);
  close(file);
  EXPECT_THAT(lines, ElementsAre("from a file"));
  EXPECT_EQ(run("read line; echo $?").lines, std::vector<std::string>{"1"}) << "else it has none";
}

TEST(ChildProcess, SignalsAndThreadsOfTheParentAreLeftAlone) {
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) good += run("exit 5").result.exit_code == 5 ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal)
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  // The child has the parent's mask, not the one of its start.
  EXPECT_EQ(run("grep SigBlk /proc/self/status").lines,
            std::vector<std::string>{"SigBlk:\t0000000000000000"});
}

TEST(ChildProcess, AMissingProgramIsNamed) {
  EXPECT_THAT(test::error_of<WorkError>([&] {
                run_child({"/no/such/program"}, test::unwatched, [](const std::string&) {});
              }),
              testing::HasSubstr("/no/such/program"));
  EXPECT_EQ(find_program("no-such-program-anywhere"), "");
  EXPECT_NE(find_program("sh"), "");
}

}  // namespace
}  // namespace kvloupe
