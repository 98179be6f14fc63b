// What the demo model's card claims, with a margin, through the product's own capture.

#include <gtest/gtest.h>

#include "capture/model/load_transformer.h"
#include "capture/train/measure.h"
#include "tests/capture/capture_check.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::train {
namespace {

const std::filesystem::path kAssets = std::filesystem::path(KVLOUPE_SOURCE_DIR) / "assets";

CaptureRequest request_for(const std::string& prompt, const std::filesystem::path& target) {
  CaptureRequest request;
  request.model = kAssets / "demo-model";
  request.prompt = kAssets / "prompts" / prompt;
  request.target = target;
  request.generate = 1;
  request.attention = AttentionStorage::none;
  return request;
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
    const kvloupe::test::TemporaryFolder folder;
    const auto request = request_for(prompt, folder / "trace.h5");
    const CaptureSummary summary = kvloupe::test::capture(request);
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

TEST(DemoModel, FindsNeedlesInFreshText) {
  const ModelConfig config = read_model_config(kAssets / "demo-model");
  const Transformer model = load_transformer(kAssets / "demo-model", config, at::kFloat, at::kCPU);
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 31);
  EXPECT_GE(needle_accuracy(model, corpus, {.length = 256, .needles = 1, .prompts = 20}, at::kCPU),
            0.95);
  EXPECT_GE(needle_accuracy(model, corpus, {.length = 512, .needles = 4, .prompts = 5}, at::kCPU),
            0.8);
}

TEST(DemoModel, RestsOnTokenZero) {
  const ModelConfig config = read_model_config(kAssets / "demo-model");
  const Transformer model = load_transformer(kAssets / "demo-model", config, at::kFloat, at::kCPU);
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 31);
  constexpr int kPrompts = 4;
  double share = 0.0;
  for (std::uint64_t prompt = 0; prompt < kPrompts; ++prompt) {
    const SinkReport sinks =
        measure_sinks(model, corpus.needle_prompt(prompt, 1000, 1).ids, at::kCPU);
    EXPECT_GT(sinks.strongest(), 0.9) << prompt;
    EXPECT_LT(sinks.sink_value_ratio(), 0.3) << prompt;
    share += sinks.sink_head_share() / kPrompts;
  }
  EXPECT_GT(share, 0.26);
}

}  // namespace
}  // namespace kvloupe::train
