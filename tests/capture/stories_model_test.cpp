// The real checkpoint beside the project: text, losses and top-5 against the naive model.
#include <gtest/gtest.h>

#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

constexpr const char* kPrompt = "Once upon a time, there was a little girl named Lily.";
constexpr const char* kContinuation =
    " She loved to play outside in the park. One day, she saw a big, red ball. She wanted to play "
    "with it, but it was too high.";

TEST(Stories, ContinuesAsItsReadmeSaysAndLikeTheNaiveModel) {
  if (!std::filesystem::exists(stories_folder())) {
    GTEST_SKIP() << "the checkpoint stories260K is not beside the project";
  }
  const NaiveModel naive(stories_folder());
  const TemporaryFolder folder;
  CaptureRequest request{.model = stories_folder(),
                         .text = kPrompt,
                         .generate = 46,
                         .attention = AttentionStorage::full,
                         .dtype = "f32",
                         .storage = Storage::float32};
  for (const int block : {1, 7, 64, 16}) {
    SCOPED_TRACE(block);
    request.block = block;
    request.target = folder / (std::to_string(block) + ".h5");
    const CaptureSummary summary = capture(request);
    EXPECT_EQ(summary.generated_text, kContinuation);
    const Trace trace(request.target);
    EXPECT_EQ(trace.tokens().ids.front(), 1);  // BOS, once
    EXPECT_NE(trace.tokens().ids[1], 1);
    std::string text;
    for (std::size_t t = 1; t < trace.tokens().text.size(); ++t) text += trace.tokens().text[t];
    EXPECT_EQ(text, std::string(" ") + kPrompt + kContinuation);
    expect_like_naive(trace, naive, 1e-4);
    if (block == 7) expect_consistent(trace);
  }
}

}  // namespace
}  // namespace kvloupe::test
