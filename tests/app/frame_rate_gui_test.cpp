// How long frames take while replays run beside: what the window promises.

#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

TEST(FrameRate, DraggingTheBudgetAt4096TokensStaysFluent) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  const TemporaryFolder folder;
  const auto path = folder.path() / "long.h5";
  SyntheticTraceOptions options;
  options.prompt_length = 4096;
  options.generated = 0;
  options.block = 256;
  options.head_dim = 32;
  options.value_out_norms = false;
  write_synthetic_trace(path, options);
  WindowDriver driver(1600, 1000);
  driver.workspace.state.tile_count = 2;
  driver.workspace.open(path.string());
  driver.settle();
  ASSERT_NE(driver.workspace.results.trace(), nullptr) << driver.workspace.notice;

  std::vector<double> seconds;
  for (int i = 0; i < 60; ++i) {  // every frame asks for another budget and cancels the jobs before
    driver.workspace.state.budget = std::to_string(256 + 32 * i);
    seconds.push_back(driver.frame());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::printf("frame: median %.1f ms, 95 %% %.1f ms, longest %.1f ms\n", 1e3 * median,
              1e3 * seconds[seconds.size() * 95 / 100], 1e3 * seconds.back());
  // 33 ms on an idle machine; others may be using this one.
  EXPECT_LT(median, 0.1);
  driver.settle();
  EXPECT_EQ(driver.workspace.results.a.focus.current()->budget, 256 + 32 * 59);
}

}  // namespace
}  // namespace kvloupe::test
