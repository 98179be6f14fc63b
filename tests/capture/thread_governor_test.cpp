// The number of threads beside other programs: the rule, and the kernel's account that it reads.
#include "capture/run/thread_governor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "capture/run/waiting_time.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

/// Looks, one second apart, until the number of threads changes; gives up after `most`.
int looks_until_change(ThreadGovernor& governor, double waited, int most = 1000) {
  const int before = governor.threads();
  for (int looks = 1; looks <= most; ++looks) {
    if (governor.look(waited, 1.0) != before) return looks;
  }
  return most + 1;
}

TEST(ThreadGovernor, KeepsAllThreadsOnAFreeMachine) {
  ThreadGovernor governor(8);
  EXPECT_EQ(governor.threads(), 8);
  EXPECT_EQ(looks_until_change(governor, 0.1), 1001);
}

TEST(ThreadGovernor, GivesUpAsManyThreadsAsProcessorsAreTaken) {
  for (const auto& [waited, expected] : {std::pair{0.5, 15}, {1.0, 15}, {2.3, 13}, {40.0, 1}}) {
    ThreadGovernor governor(16);
    EXPECT_EQ(governor.look(2.0 * waited, 2.0), expected);
    EXPECT_EQ(governor.look(0.0, 1.0), expected) << "the rest runs undisturbed";
  }
}

TEST(ThreadGovernor, TakesThemAgainAndTriesMoreAndMoreSeldom) {
  ThreadGovernor governor(2);
  int before = 0;
  for (int trial = 0; trial < 4; ++trial) {
    EXPECT_EQ(governor.look(0.8, 1.0), 1);
    const int looks = looks_until_change(governor, 0.0);
    EXPECT_EQ(governor.threads(), 2);
    EXPECT_GT(looks, before);
    before = looks;
  }
  for (int i = 0; i < 200; ++i) governor.look(0.0, 1.0);  // the other program has ended
  EXPECT_EQ(governor.look(0.8, 1.0), 1);
  EXPECT_LT(looks_until_change(governor, 0.0), before);
}

TEST(ThreadGovernor, FewerThreadsThatWaitAsWellAreNoHelp) {
  ThreadGovernor governor(2);
  EXPECT_EQ(governor.look(1.0, 1.0), 1);
  EXPECT_EQ(governor.look(0.5, 1.0), 2) << "both processors are shared with others";
  EXPECT_GE(looks_until_change(governor, 1.0), 4) << "another trial comes later";
  EXPECT_EQ(governor.look(0.0, 1.0), 1);
  EXPECT_EQ(governor.look(0.5, 1.0), 2) << "others have come to the last processor";
}

TEST(ThreadGovernor, IsBetweenOneAndAllWhateverItIsTold) {
  ThreadGovernor governor(5), alone(1);
  unsigned state = 1;
  for (int i = 0; i < 5000; ++i) {
    state = state * 1664525U + 1013904223U;
    const double waited = static_cast<double>(state >> 8U) / 4e6 - 0.5;
    governor.look(waited, i % 7 == 0 ? 0.0 : 0.3);
    ASSERT_GE(governor.threads(), 1);
    ASSERT_LE(governor.threads(), 5);
    ASSERT_EQ(alone.look(waited, 0.3), 1);
  }
}

TEST(WaitingSeconds, AddsWhatAllThreadsWaited) {
  const TemporaryFolder root;
  EXPECT_FALSE(waiting_seconds(root.path()));
  const auto put = [&](const char* thread, const std::string& text) {
    const std::filesystem::path folder = root / "proc/self/task" / thread;
    std::filesystem::create_directories(folder);
    if (!text.empty()) write_file(folder / "schedstat", text);
  };
  put("10", "");
  EXPECT_FALSE(waiting_seconds(root.path())) << "the kernel keeps no account";
  put("11", "110915377 624311334 293\n");
  put("12", "5 1500000000 1\n");
  put("13", "not numbers");
  const auto seconds = waiting_seconds(root.path());
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(*seconds, 2.124311334, 1e-9);
}

TEST(WaitingSeconds, OfThisProcessNeverFall) {
  const auto before = waiting_seconds();
  if (!before) GTEST_SKIP() << "this kernel keeps no account";
  EXPECT_GE(*before, 0.0);
  EXPECT_GE(waiting_seconds().value_or(-1.0), *before);
}

}  // namespace
}  // namespace kvloupe::test
