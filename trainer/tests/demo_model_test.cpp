// The claims of the demo model's card, with a margin.

#include <gtest/gtest.h>

#include <filesystem>

#include "capture/model/load_transformer.h"
#include "trainer/measure.h"

namespace kvloupe::train {
namespace {

const std::filesystem::path kAssets = std::filesystem::path(KVLOUPE_SOURCE_DIR) / "assets";

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
