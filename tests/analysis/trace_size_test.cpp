#include "analysis/trace/trace_size.h"

#include <gtest/gtest.h>

#include "analysis/trace/trace_layout.h"
#include "analysis/user_files.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

/// SmolLM2-135M.
ModelInfo small_language_model() {
  ModelInfo model{.num_layers = 30,
                  .num_heads = 9,
                  .num_kv_heads = 3,
                  .head_dim = 64,
                  .hidden_size = 576,
                  .vocab_size = 49152};
  return model;
}

RunInfo run_of(int tokens) {
  RunInfo run{.block_size = 128, .prompt_length = tokens};
  return run;
}

TEST(TraceSize, OfASmallLanguageModelByHand) {
  const ModelInfo model = small_language_model();
  EXPECT_EQ(states_size(model, 2000, false), 30U * 15 * 2000 * 64 * 2);
  EXPECT_EQ(states_size(model, 54, true), 30U * 15 * 54 * 64 * 4);
  EXPECT_EQ(attention_size(model, 54), 270U * 54 * 54 * 2);
  EXPECT_EQ(attention_size(model, 2000), 270U * (16 * 17 / 2) * 125 * 125 * 2);
  EXPECT_EQ(lm_head_size(model), 49152U * 576 * 2);
  TraceContents contents;
  contents.vocabulary_text = 330'000;
  EXPECT_LT(trace_size(model, run_of(54), {}, contents).total(), 25'000'000U);
  EXPECT_LT(trace_size(model, run_of(2000), {}, contents).total(), 160'000'000U);
  EXPECT_EQ(trace_size(model, run_of(54), {}, contents).output_weights, 19'906'560U);
}

TEST(TraceSize, NumbersBeyondAnyDiskDoNotWrapAround) {
  const ModelInfo model = small_language_model();
  RunInfo run = run_of(100);
  run.generated = 1 << 30;
  TraceWriterOptions options;
  options.store_attention = true;
  EXPECT_GT(attention_size(model, 1 << 30), std::uint64_t{1} << 61);
  EXPECT_GT(trace_size(model, run, options, {}).total(), std::uint64_t{1} << 61);
}

TEST(TraceSize, ItsLineNamesThePartsThatAreThere) {
  TraceSize size;
  size.states = 115'200'000;
  size.output_weights = 19'906'560;
  size.other = 12'400'000;
  EXPECT_EQ(size_text(size, run_of(2000), false, false),
            "the trace will take about 148 MB: 115 MB states (2000 tokens, float16), 20 MB output "
            "projections, 12 MB other");
  size.attention = 1'200'000'000;
  size.lm_head = 56'600'000;
  EXPECT_EQ(
      size_text(size, run_of(2000), true, true),
      "the trace will take at most 1.4 GB: 115 MB states (up to 2000 tokens, float32), 1.2 GB "
      "attention matrices, 20 MB output projections, 57 MB output head, 12 MB other");
}

TEST(TraceSize, BytesAsText) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(12'345), "12 kB");
  EXPECT_EQ(bytes_text(999'600), "1.0 MB");
  EXPECT_EQ(bytes_text(9'960'000), "10 MB");
  EXPECT_EQ(bytes_text(1'440'000'000), "1.4 GB");
}

TEST(TraceSize, EvenChunksCoverTheTokensWithLeastWaste) {
  for (int tokens = 1; tokens < 2000; ++tokens) {
    const int chunk = layout::even_chunk(tokens, 256);
    const int chunks = (tokens + chunk - 1) / chunk;
    ASSERT_LE(chunk, 256);
    ASSERT_EQ(chunks, (tokens + 255) / 256) << tokens;
    ASSERT_LT(chunks * chunk - tokens, chunks) << tokens;
  }
}

TEST(FreeSpace, IsToldOfAFolderThatExists) {
  const test::TemporaryFolder folder;
  EXPECT_GT(free_space(folder.path()).value_or(0), 0U);
  EXPECT_TRUE(free_space("").has_value()) << "this folder";
  EXPECT_FALSE(free_space(folder / "none").has_value());
}

TEST(TraceSize, AnOutputHeadIsHeldUnaskedWhereItIsSmall) {
  ModelInfo model;  // SmolLM2-135M: a head of 56.6 MB, 57.6 kB of states a token in float16
  model.num_layers = 30;
  model.num_heads = 9;
  model.num_kv_heads = 3;
  model.head_dim = 64;
  model.hidden_size = 576;
  model.vocab_size = 49152;
  EXPECT_FALSE(holds_lm_head(model, 2000, false)) << "smaller than the states, but large";
  model.vocab_size = 10000;  // 11.5 MB
  EXPECT_TRUE(holds_lm_head(model, 2000, false));
  EXPECT_TRUE(holds_lm_head(model, 101, true));
  EXPECT_FALSE(holds_lm_head(model, 99, true));
  EXPECT_FALSE(holds_lm_head(model, 100, false));
}

TEST(TraceSize, RowsOfTheOutputHeadAreHeldUpTo16Megabytes) {
  const ModelInfo model = small_language_model();  // 1152 bytes a row
  EXPECT_EQ(held_lm_head_rows(model, 1), 1);
  EXPECT_EQ(held_lm_head_rows(model, 13'888), 13'888);
  EXPECT_EQ(held_lm_head_rows(model, 13'889), 0);
  TraceContents contents;
  const TraceSize without = trace_size(model, run_of(500), {}, contents);
  contents.lm_head_rows = 300;
  const TraceSize with = trace_size(model, run_of(500), {}, contents);
  EXPECT_EQ(with.lm_head, 0U);
  EXPECT_NEAR(static_cast<double>(with.total() - without.total()), 300.0 * (1152 + 4), 1000.0);
}

}  // namespace
}  // namespace kvloupe
