// The prompts that come with the demo model, through the product's own capture.

#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

const std::filesystem::path kShipped = std::filesystem::path(KVLOUPE_SOURCE_DIR) / "assets";

CaptureRequest request_for(const std::string& prompt, const std::filesystem::path& target) {
  return CaptureRequest{.model = kShipped / "demo-model",
                        .target = target,
                        .prompt = kShipped / "prompts" / prompt,
                        .generate = 1,
                        .attention = AttentionStorage::none};
}

/// The token three before the answer is the word asked for: "for WORD is: NUMBER".
std::string answer_in(const Trace& trace) {
  const TokenTable& tokens = trace.tokens();
  const std::string word = tokens.text.at(static_cast<std::size_t>(trace.run().prompt_length) - 3);
  for (std::size_t t = 5; t < tokens.text.size(); ++t) {
    if (tokens.text[t - 5] == " numbers" && tokens.text[t - 3] == word) return tokens.text[t];
  }
  return "no needle for" + word;
}

TEST(DemoModel, FindsTheNeedlesOfTheShippedPrompts) {
  for (const char* prompt : {"needle.txt", "four-needles.txt", "long.txt"}) {
    SCOPED_TRACE(prompt);
    const TemporaryFolder folder;
    const auto request = request_for(prompt, folder / "trace.h5");
    const CaptureSummary summary = capture(request);
    const Trace trace(request.target);
    EXPECT_EQ(summary.generated_text, answer_in(trace));
    // The vocabulary names the tokens as the sequence does.
    const auto vocabulary = trace.vocabulary();
    ASSERT_TRUE(vocabulary.has_value());
    for (std::size_t t = 0; t < trace.tokens().ids.size(); ++t) {
      const auto id = static_cast<std::size_t>(trace.tokens().ids[t]);
      ASSERT_EQ(vocabulary->at(id), trace.tokens().text[t]) << t;
    }
  }
}

// The real checkpoint beside the project: text, losses and top-5 against the naive model.

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
