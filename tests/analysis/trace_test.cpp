// The trace's writer and reader, against each other.

#include "analysis/base/system/user_files.h"
#include "analysis/trace/trace_layout.h"
#include "analysis/trace/trace_probe.h"
#include "analysis/trace/trace_size.h"
#include "analysis/trace/trace_writer.h"
#include "tests/support/edited_trace.h"
#include "tests/support/probe_trace.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::SyntheticStates;
using test::SyntheticTraceOptions;
using test::TemporaryFolder;
using test::write_synthetic_trace;

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

void expect_same_states(const Trace& trace, const SyntheticStates& states) {
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    for (int head = 0; head < trace.model().num_kv_heads; ++head) {
      EXPECT_EQ(trace.key(layer, head), states.key[layer][head]);
      EXPECT_EQ(trace.value(layer, head), states.value[layer][head]);
    }
    for (int head = 0; head < trace.model().num_heads; ++head) {
      EXPECT_EQ(trace.query(layer, head), states.query[layer][head]);
    }
  }
}

TEST(Trace, StatesSurviveTheFileExactly) {
  const TemporaryFolder folder;
  for (const bool f32 : {false, true}) {
    for (const int block : {1, 7, 64, 0}) {
      SyntheticTraceOptions options;
      options.prompt_length = 300;  // more than one chunk
      options.block = block;
      options.store_f32 = f32;
      const SyntheticStates states = write_synthetic_trace(folder / "t.h5", options);
      const Trace trace(folder / "t.h5");
      expect_same_states(trace, states);
      EXPECT_EQ(trace.blocks().size(), make_blocks(300, 8, block).size());
      const std::optional<OutputWeight> weight = trace.output_weight(1, 3);
      ASSERT_TRUE(weight);
      Matrix room;
      EXPECT_EQ(weight->floats(room), states.output_weight[1][3]);
      EXPECT_EQ(weight->bytes(),
                static_cast<std::size_t>(weight->rows() * weight->cols()) * (f32 ? 4 : 2));
    }
  }
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(Trace, AttributesAndTokensSurvive) {
  const TemporaryFolder folder;
  SyntheticTraceOptions options{.seed = ~std::uint64_t{0}};
  const SyntheticStates states = write_synthetic_trace(folder / "t.h5", options);
  const Trace trace(folder / "t.h5");
  EXPECT_EQ(trace.model().name, "synthetic");
  EXPECT_EQ(trace.model().num_heads, 4);
  EXPECT_EQ(trace.model().num_kv_heads, 2);
  EXPECT_EQ(trace.model().hidden_size, 24);
  EXPECT_EQ(trace.model().rope_pairing, RopePairing::half);
  EXPECT_EQ(trace.run().seed, options.seed);
  EXPECT_EQ(trace.run().attention_scale, 0.25);
  EXPECT_EQ(trace.run().policy, "full");
  EXPECT_EQ(trace.length(), 104);
  EXPECT_EQ(trace.tokens().text[0], "<s>");
  EXPECT_EQ(trace.tokens().text[3], " w3é");
  EXPECT_EQ(trace.tokens().segment_names, (std::vector<std::string>{"context", "answer"}));
  EXPECT_EQ(trace.tokens().segment[96], 1);
  EXPECT_THAT(trace.generator(), HasSubstr("kvloupe"));
  EXPECT_EQ(trace.created().size(), 20U);
  EXPECT_FALSE(trace.identity().empty());
}

TEST(Trace, OptionalPartsAreReadWhereTheyAre) {
  const TemporaryFolder folder;
  write_synthetic_trace(folder / "t.h5", {.prompt_length = 200,
                                          .attention = true,
                                          .lm_head = true,
                                          .vocabulary = true,
                                          .evicted_at = true});
  const Trace trace(folder / "t.h5");
  ASSERT_TRUE(test::stored_attention(trace, 0, 0).has_value());
  const Matrix attention = *test::stored_attention(trace, 1, 2);
  for (int i = 0; i < trace.length(); ++i) {
    EXPECT_NEAR(attention.row(i).sum(), 1.0F, 5e-3F);
    EXPECT_EQ(attention.row(i).tail(trace.length() - 1 - i).cwiseAbs().sum(), 0.0F);
  }
  ASSERT_TRUE(trace.predictions().has_value());
  EXPECT_EQ(trace.predictions()->k, 3);
  EXPECT_TRUE(std::isnan(trace.predictions()->loss.back()));
  EXPECT_EQ(trace.lm_head()->rows(), 50);
  ASSERT_TRUE(trace.vocabulary().has_value());
  ASSERT_EQ(trace.vocabulary()->size(), 50U);
  EXPECT_EQ(trace.vocabulary()->front(), " wörd0");
  EXPECT_EQ((*trace.vocabulary())[3], "");
  EXPECT_EQ(trace.vocabulary()->back(), " wörd49");
  ASSERT_TRUE(trace.evicted_at(1, 1).has_value());
  EXPECT_EQ(trace.evicted_at(1, 1)->size(), 208U);
  const int last = static_cast<int>(trace.blocks().size()) - 1;
  EXPECT_EQ(trace.merges(1), (std::vector<MergedEntry>{
                                 {1, 0, 3, 2, 0.25F}, {1, 0, 3, 3, 0.75F}, {0, last, 1, 0, 2.5F}}));
  EXPECT_EQ(trace.attention_logsumexp(0, 0).size(), 208U);
}

TEST(Trace, AProbeSurvivesTheFileExactly) {
  const TemporaryFolder folder;
  for (const bool f32 : {false, true}) {
    test::ProbeTraceOptions options;
    options.trace.prompt_length = 300;
    options.trace.question = 20;
    options.trace.store_f32 = f32;
    options.request = 6;
    options.part = 130;
    const test::ProbeTraceStates states = test::write_probe_trace(folder / "t.h5", options);
    const Trace trace(folder / "t.h5");
    expect_same_states(trace, states.trace);
    const TraceProbe probe(trace);
    ASSERT_TRUE(probe.info());
    EXPECT_EQ(probe.info()->kind, "repeat");
    EXPECT_EQ(probe.info()->context_end, 280);
    EXPECT_EQ(probe.info()->ids, states.probe.ids);
    ASSERT_EQ(probe.info()->passes.size(), 3U);
    EXPECT_EQ(probe.info()->passes[2].tokens.first, 2 * 136);
    EXPECT_EQ(probe.info()->passes[2].tokens.end, 3 * 6 + 280);
    EXPECT_EQ(probe.info()->passes[2].context.first, 260);
    EXPECT_EQ(probe.info()->passes[2].context.end, 280);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const int l = static_cast<int>(layer);
      for (std::size_t head = 0; head < 4; ++head) {
        EXPECT_EQ(probe.query(l, static_cast<int>(head)), states.query[layer][head]);
      }
      for (std::size_t head = 0; head < 2; ++head) {
        EXPECT_EQ(probe.key(l, static_cast<int>(head)), states.key[layer][head]);
      }
      EXPECT_EQ(probe.input_norm(l), states.input_norm[layer]);
    }
  }
  write_synthetic_trace(folder / "plain.h5");
  const Trace plain(folder / "plain.h5");
  EXPECT_FALSE(TraceProbe(plain).info());
  EXPECT_THROW(TraceProbe(plain).query(0, 0), UsageError);
}

TEST(Trace, ChangesOfTheResidualStreamSurviveTheFileExactly) {
  const TemporaryFolder folder;
  SyntheticTraceOptions options{.layers = 3, .residual_change = true};
  options.layer_attributes.resize(3);
  options.layer_attributes[1].kind = LayerKind::none;  // its residual stream moves, too
  const SyntheticStates states = write_synthetic_trace(folder / "t.h5", options);
  const Trace trace(folder / "t.h5");
  EXPECT_TRUE(trace.has_residual_change());
  for (int layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(trace.residual_change(layer), states.residual_change[layer]);
    EXPECT_EQ(trace.residual_change(layer).front(), 0.0F);
  }
  EXPECT_THROW(trace.residual_change(3), UsageError);
}

TEST(Trace, LivesWithoutTheOptionalParts) {
  const TemporaryFolder folder;
  SyntheticTraceOptions options;
  options.output_weight = options.logsumexp = options.predictions = options.text = false;
  write_synthetic_trace(folder / "t.h5", options);
  const Trace trace(folder / "t.h5");
  EXPECT_FALSE(trace.has_output_weight());
  EXPECT_FALSE(trace.output_weight(0, 0).has_value());
  EXPECT_FALSE(test::stored_attention(trace, 0, 0).has_value());
  EXPECT_FALSE(trace.predictions().has_value());
  EXPECT_FALSE(trace.lm_head().has_value());
  EXPECT_FALSE(trace.vocabulary().has_value());
  EXPECT_FALSE(trace.evicted_at(0, 0).has_value());
  EXPECT_TRUE(trace.merges(0).empty());
  EXPECT_FALSE(trace.has_residual_change());
  EXPECT_TRUE(trace.residual_change(0).empty());
  EXPECT_TRUE(trace.attention_logsumexp(0, 0).empty());
  EXPECT_TRUE(trace.value_out_norm(0, 0, Norm::l1).empty());
  EXPECT_TRUE(trace.tokens().text.empty());
}

TEST(Trace, ValueNormsAreTheSameStoredOrComputed) {
  const TemporaryFolder folder;
  SyntheticTraceOptions options;
  write_synthetic_trace(folder / "stored.h5", options);
  options.value_out_norms = false;
  write_synthetic_trace(folder / "computed.h5", options);
  const Trace stored(folder / "stored.h5"), computed(folder / "computed.h5");
  for (const Norm norm : {Norm::l1, Norm::l2}) {
    const std::vector<float> a = stored.value_out_norm(1, 3, norm);
    const std::vector<float> b = computed.value_out_norm(1, 3, norm);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5F * a[i]);
  }
}

TEST(Trace, EmptyUpperTriangleOfAttentionTakesNoSpace) {
  const TemporaryFolder folder;
  SyntheticTraceOptions options{.layers = 1, .prompt_length = 1024, .generated = 0};
  options.block = 0;  // one block, whose attention argument holds the triangle too
  options.attention = true;
  write_synthetic_trace(folder / "t.h5", options);
  for (const Trace::DatasetInfo& dataset : Trace(folder / "t.h5").datasets()) {
    if (dataset.path != "/layers/0/attention") continue;
    const double full = 4.0 * 1024 * 1024 * 2;
    EXPECT_LT(static_cast<double>(dataset.stored_bytes), 0.57 * full);
    EXPECT_GE(static_cast<double>(dataset.stored_bytes), 0.5 * full);
    return;
  }
  FAIL() << "no attention dataset";
}

TEST(Trace, LayerOrHeadOutOfRangeIsAUsageError) {
  const TemporaryFolder folder;
  write_synthetic_trace(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  EXPECT_THROW(trace.key(2, 0), UsageError);
  EXPECT_THROW(trace.key(0, 2), UsageError);
  EXPECT_THROW(trace.key(-1, 0), UsageError);
  EXPECT_THROW(trace.query(0, 4), UsageError);
  EXPECT_THROW(trace.evicted_at(0, 2), UsageError);
}

/// A writer on a small model, and one block of its states.
struct SmallRun {
  ModelInfo model = test::make_synthetic_states().model;
  RunInfo run = test::make_synthetic_states().run;
  std::vector<float> query, key;
  SmallRun() {
    model.num_layers = 1;
    run.prompt_length = 8;
    run.generated = 4;
    query.assign(4 * 4 * 16, 0.5F);
    key.assign(2 * 4 * 16, 0.5F);
  }
};

TEST(TraceWriter, CutsToTheTokensTheRunReallyHad) {
  const TemporaryFolder folder;
  SmallRun small;
  TraceWriter writer(folder / "t.h5", small.model, small.run);
  writer.write_states(0, 0, 4, small.query, small.key, small.key);
  writer.write_states(0, 4, 4, small.query, small.key, small.key);
  small.run.generated = 0;
  TokenTable tokens;
  tokens.ids.assign(8, 3);
  writer.finish(small.run, tokens, {{0, 4}, {4, 8}}, {});
  const Trace trace(folder / "t.h5");
  EXPECT_EQ(trace.length(), 8);
  EXPECT_EQ(trace.key(0, 1).rows(), 8);
  EXPECT_EQ(trace.blocks().size(), 2U);
}

/// A trace of SmallRun whose eight tokens have these texts.
void write_texts(const std::filesystem::path& target, const std::vector<std::string>& texts) {
  SmallRun small;
  small.run.generated = 0;
  TraceWriter writer(target, small.model, small.run);
  writer.write_states(0, 0, 4, small.query, small.key, small.key);
  writer.write_states(0, 4, 4, small.query, small.key, small.key);
  std::vector<std::string> vocabulary = texts;
  vocabulary.resize(static_cast<std::size_t>(small.model.vocab_size));
  writer.write_vocabulary(vocabulary);
  TokenTable tokens;
  tokens.ids.assign(8, 3);
  tokens.text = texts;
  writer.finish(small.run, tokens, {{0, 4}, {4, 8}}, {});
}

TEST(Trace, EveryByteOfATokenIsToldApart) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"\n",   "\n\\",  "{\n", "<0x0A>",
                                          "\xE2", "\\xE2", "é\t", "\\n"};
  write_texts(folder / "t.h5", texts);
  const Trace trace(folder / "t.h5");
  std::vector<std::string> expected = texts;
  expected[4] = "\\xE2";  // half a character cannot be shown but so
  EXPECT_EQ(trace.tokens().text, expected);
  EXPECT_EQ(trace.vocabulary()->at(2), "{\n");
  EXPECT_EQ(trace.vocabulary()->at(7), "\\n");
}

TEST(Trace, TextsOfOlderTracesAreReadAsTheyAre) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts(8, "\n");
  write_texts(folder / "t.h5", texts);
  for (const char* path : {"/tokens/text", "/model/vocabulary/text"}) {
    test::EditedTrace(folder / "t.h5").remove_attribute(path, "spelled");
  }
  const Trace trace(folder / "t.h5");
  EXPECT_EQ(trace.tokens().text, texts) << "a piece that is nothing but an escaped line feed";
  EXPECT_EQ(trace.vocabulary()->at(0), "\n");
}

TEST(TraceWriter, WidensWhatOverflowsFloat16AndSaysSo) {
  const TemporaryFolder folder;
  SmallRun small;
  small.run.generated = 0;
  TraceWriter writer(folder / "t.h5", small.model, small.run);
  small.key[5] = 0.1F;  // rounded in the first block, exact in the second
  writer.write_states(0, 0, 4, small.query, small.key, small.key);
  std::vector<float> large = small.key;
  large[17] = -70000.0F;
  writer.write_states(0, 4, 4, small.query, large, small.key);
  TokenTable tokens;
  tokens.ids.assign(8, 3);
  writer.finish(small.run, tokens, {{0, 4}, {4, 8}}, {});
  ASSERT_EQ(writer.notes().size(), 1U);
  EXPECT_THAT(writer.notes()[0], HasSubstr("/layers/0/key"));
  const Trace trace(folder / "t.h5");
  EXPECT_EQ(trace.key(0, 0)(5, 1), -70000.0F);
  EXPECT_EQ(trace.key(0, 0)(4, 5), 0.1F);
  EXPECT_NEAR(trace.key(0, 0)(0, 5), 0.1F, 1e-4F);
  EXPECT_EQ(trace.key(0, 1)(3, 15), 0.5F);
  EXPECT_NEAR(trace.value(0, 0)(4, 5), 0.1F, 1e-4F);
}

TEST(TraceWriter, NotANumberIsNamedByLayerHeadAndToken) {
  const TemporaryFolder folder;
  SmallRun small;
  {
    TraceWriter writer(folder / "t.h5", small.model, small.run);
    small.key[1 * 4 * 16 + 2 * 16 + 3] = std::nanf("");
    EXPECT_THAT(test::error_of<WorkError>(
                    [&] { writer.write_states(0, 0, 4, small.query, small.key, small.key); }),
                HasSubstr("layer 0, key of head 1, token 2"));
  }
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(TraceWriter, NothingIsLeftBehindWithoutFinish) {
  const TemporaryFolder folder;
  SmallRun small;
  {
    TraceWriter writer(folder / "t.h5", small.model, small.run);
    writer.write_states(0, 0, 4, small.query, small.key, small.key);
    EXPECT_LE(files_in(folder.path()), 1U);
    EXPECT_FALSE(std::filesystem::exists(folder / "t.h5"));
  }
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(TraceWriter, AFailedCaptureLeavesTheOldTrace) {
  const TemporaryFolder folder;
  write_synthetic_trace(folder / "t.h5");
  {
    SmallRun small;
    TraceWriter writer(folder / "t.h5", small.model, small.run);
    writer.write_states(0, 0, 4, small.query, small.key, small.key);
  }
  EXPECT_EQ(Trace(folder / "t.h5").length(), 104);
}

TEST(TraceWriter, UnusableTargetsAreNamed) {
  const TemporaryFolder folder;
  const SmallRun small;
  const auto message = [&](const std::filesystem::path& target) -> std::string {
    return test::error_of<FileError>([&] { TraceWriter writer(target, small.model, small.run); },
                                     "accepted");
  };
  EXPECT_THAT(message(folder / "missing" / "t.h5"), HasSubstr("No such file or directory"));
  EXPECT_THAT(message(folder.path()), HasSubstr("is a folder"));
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(message(folder / "file" / "t.h5"), HasSubstr("Not a directory"));
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(TraceWriter, AKilledCaptureLeavesTheOlderTrace) {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.h5") << "an older trace";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const SmallRun small;
    TraceWriter writer(folder / "t.h5", small.model, small.run);
    writer.write_states(0, 0, 4, small.query, small.key, small.key);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(files_in(folder.path()), 2U) << "the next write of t.h5 removes the other one";
  EXPECT_EQ(std::filesystem::file_size(folder / "t.h5"), std::string("an older trace").size());
}

TEST(TraceWriter, AFullDiskIsOneClearErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  // In a child process, because the limit on a file's size holds for all of the process.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    int code = 10;
    try {
      write_synthetic_trace(folder / "t.h5", {.prompt_length = 2000});
    } catch (const FileError& error) {
      const std::string text = error.what();
      code =
          text.find("File too large") != std::string::npos && text.starts_with(error.path) ? 0 : 11;
    } catch (...) {
      code = 12;
    }
    alarm(20);
    std::exit(code);  // not _Exit: HDF5's clean-up at exit must not trip over the failure
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(files_in(folder.path()), 0U);
}

/// SmolLM2-135M.
ModelInfo small_language_model() {
  return ModelInfo{.num_layers = 30,
                   .num_heads = 9,
                   .num_kv_heads = 3,
                   .head_dim = 64,
                   .hidden_size = 576,
                   .vocab_size = 49152};
}

RunInfo run_of(int tokens) { return RunInfo{.block_size = 128, .prompt_length = tokens}; }

TEST(TraceSize, OfASmallLanguageModelByHand) {
  const ModelInfo model = small_language_model();
  EXPECT_EQ(states_size(model, 2000, false), 30U * 15 * 2000 * 64 * 2);
  EXPECT_EQ(states_size(model, 54, true), 30U * 15 * 54 * 64 * 4);
  EXPECT_EQ(attention_size(model, 54), 270U * 54 * 54 * 2);
  EXPECT_EQ(attention_size(model, 2000), 270U * (16 * 17 / 2) * 125 * 125 * 2);
  EXPECT_EQ(lm_head_size(model), 49152U * 576 * 2);
  TraceContents contents{.vocabulary_text = 330'000};
  EXPECT_LT(trace_size(model, run_of(54), {}, contents).total(), 25'000'000U);
  EXPECT_LT(trace_size(model, run_of(2000), {}, contents).total(), 160'000'000U);
  EXPECT_EQ(trace_size(model, run_of(54), {}, contents).output_weights, 19'906'560U);
}

TEST(TraceSize, NumbersBeyondAnyDiskDoNotWrapAround) {
  const ModelInfo model = small_language_model();
  RunInfo run = run_of(100);
  run.generated = 1 << 30;
  TraceWriterOptions options{.store_attention = true};
  EXPECT_GT(attention_size(model, 1 << 30), std::uint64_t{1} << 61);
  EXPECT_GT(trace_size(model, run, options, {}).total(), std::uint64_t{1} << 61);
}

TEST(TraceSize, ItsLineNamesThePartsThatAreThere) {
  TraceSize size{.states = 115'200'000, .output_weights = 19'906'560, .other = 12'400'000};
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
