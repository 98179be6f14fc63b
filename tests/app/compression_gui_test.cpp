// The choice between evicting to the end and up to the question, on traces that cannot have both.

#include "app/session/view_catalog.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct WindowCompression : WindowTest {
  void prepare() override {
    start();
    state() = window::default_state();
  }
  /// The trace, opened with evictions that are to stop at the question.
  void open(const std::filesystem::path& trace) {
    driver_->workspace.open(trace.string());
    driver_->settle();
    state().compression = Compression::context_only;
    driver_->settle();
    EXPECT_EQ(driver_->workspace.notice, "");
    EXPECT_EQ(driver_->workspace.tiles[0].error(), "");
  }
};

TEST_F(WindowCompression, StopsAtTheQuestionWhereThereIsAContext) {
  SyntheticTraceOptions options{.question = 16};
  write_synthetic_trace(folder_ / "asks.h5", options);
  open(folder_ / "asks.h5");
  ASSERT_EQ(state().compression, Compression::context_only);
  const auto replay = driver_->workspace.shown.replay(0);
  ASSERT_NE(replay, nullptr);
  EXPECT_EQ(replay->acts_until, options.prompt_length - options.question);
}

TEST_F(WindowCompression, IsTakenBackWhereThePromptBeginsWithItsQuestion) {
  SyntheticTraceOptions options;
  options.question = options.prompt_length;
  write_synthetic_trace(folder_ / "question.h5", options);
  open(folder_ / "question.h5");
  EXPECT_FALSE(state().compression);
}

TEST_F(WindowCompression, IsTakenBackOnAClosedLoopTraceThatEvictedToTheEnd) {
  const SyntheticTraceOptions options;
  write_synthetic_closed_loop(folder_ / "closed.h5", options, "h2o", 24);
  open(folder_ / "closed.h5");
  EXPECT_FALSE(state().compression);
}

}  // namespace
}  // namespace kvloupe::test
