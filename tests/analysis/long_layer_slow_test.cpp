// One layer of Llama-3-8B's shape at 131 072 tokens: the memory that a replay takes. Prints its
// numbers; docs/performance.md has those of larger budgets.

#include "tests/support/long_trace.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr int kTokens = 131072;
constexpr int kBudget = 2048;

/// Runs `work` in a process of its own; its peak of resident memory in MB, or −1 if it failed.
template <typename Work>
double peak_of(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "%s\n", problem.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return status == 0 ? static_cast<double>(usage.ru_maxrss) / 1024.0 : -1.0;
}

TEST(LongLayer, ReplaysInMemoryThatItsLengthDoesNotSet) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "long.h5").string();
  if (std::filesystem::space(folder.path()).available < (std::uintmax_t{3} << 30U)) {
    GTEST_SKIP() << "needs 2 GB on the disk";
  }
  ASSERT_GT(peak_of([&] {
              test::LongTraceOptions options{.tokens = kTokens};
              test::write_long_trace(path, options);
            }),
            0.0);
  const double nothing = peak_of([&] { const Trace trace(path); });
  std::printf("opened: %.0f MB\n", nothing);
  // Its queries and keys would take 2560 MB as float32, a matrix of attention 69 GB.
  for (const char* policy : {"sink", "keydiff", "tova", "snapkv"}) {
    const auto start = std::chrono::steady_clock::now();
    const double peak = peak_of([&] {
      const Trace trace(path);
      ReplayRequest request{.policy = parse_policy(policy), .budget = kBudget, .metrics = false};
      const Replay replayed = replay(trace, request, test::unwatched);
      if (replayed.heads.size() != 8 || replayed.heads[7].steps.back().retained != kBudget) {
        _exit(2);
      }
    });
    std::printf("%-8s %.0f MB, %.1f s\n", policy, peak,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    EXPECT_GT(peak, 0.0) << policy;
    EXPECT_LT(peak - nothing, 256.0) << policy;
  }
}

}  // namespace
}  // namespace kvloupe
