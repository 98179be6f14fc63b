#include "analysis/base/system/child_process.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <new>

#include "analysis/base/system/confinement.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

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
  ChildOptions options{.at_most = std::chrono::milliseconds(200)};
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
  ChildOptions options{.input = file};
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
              HasSubstr("/no/such/program"));
  EXPECT_EQ(find_program("no-such-program-anywhere"), "");
  EXPECT_NE(find_program("sh"), "");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr Confinement kAllowed{64U << 20U, 1};

/// The wait status of a confined child that does this.
int confined(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    confine_process(kAllowed);
    _exit(work());
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return status;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

TEST(Confinement, ReadingGoesOn) {
  EXPECT_EQ(code_of(confined([] {
              const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
              char bytes[16];
              return file >= 0 && read(file, bytes, sizeof bytes) == sizeof bytes ? 0 : 1;
            })),
            0);
}

TEST(Confinement, MemoryIsLimited) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve terabytes";
  EXPECT_EQ(code_of(confined([] {
              std::vector<char> small(16U << 20U, 'x');
              try {
                std::vector<char> large(256U << 20U, 'x');
              } catch (const std::bad_alloc&) {
                return small[5] == 'x' ? 7 : 8;
              }
              return 0;
            })),
            7);
}

TEST(Confinement, TimeIsLimited) {
  EXPECT_EQ(code_of(confined([] {
              volatile unsigned long work = 0;
              while (true) work = work + 1;
              return 0;
            })),
            -SIGXCPU);
}

TEST(Confinement, NothingIsWritten) {
  test::TemporaryFolder folder;
  const std::string path = (folder / "file").string();
  const int before = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int status = confined([&] {
    signal(SIGXFSZ, SIG_IGN);
    if (write(before, "x", 1) == 1) return 1;  // an open file was closed
    for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC}) {
      const int file = open(path.c_str(), flags, 0600);
      if (file >= 0 && write(file, "x", 1) == 1) return 2;
    }
    static_cast<void>(unlink(path.c_str()));
    return 0;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(lseek(before, 0, SEEK_END), 0);
  close(before);
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(Confinement, WhereTheKernelCanDoItNothingElseIsTouched) {
  const unsigned action = SECCOMP_RET_ERRNO;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
    GTEST_SKIP() << "this kernel has no seccomp";
  test::TemporaryFolder folder;
  const std::string path = (folder / "file").string();
  close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto refused = [](long result) { return result < 0 && errno == EPERM; };
  const int status = confined([&] {
    if (!refused(socket(AF_INET, SOCK_STREAM, 0))) return 1;
    if (!refused(socket(AF_UNIX, SOCK_STREAM, 0))) return 2;
    if (!refused(unlink(path.c_str()))) return 3;
    if (!refused(open(path.c_str(), O_WRONLY))) return 4;
    if (!refused(open(path.c_str(), O_RDONLY | O_CREAT, 0600))) return 5;
    if (!refused(rename(path.c_str(), (path + "2").c_str()))) return 6;
    char* const arguments[] = {nullptr};
    if (!refused(execve("/bin/true", arguments, arguments))) return 7;
    if (!refused(kill(getppid(), 0))) return 8;
    if (!refused(chmod(path.c_str(), 0777))) return 9;
    return 0;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
}

TEST(Confinement, AbortStillEndsIt) {
  EXPECT_EQ(code_of(confined([]() -> int { std::abort(); })), -SIGABRT);
}
#endif

}  // namespace
}  // namespace kvloupe
