// Runs of tiny random checkpoints against the naive double-precision model.
#include "capture/run/capture.h"
#include "analysis/math/logit_path.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace_final_norm.h"
#include "capture/checkpoint/safetensors.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture_input.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kTokens = 75;

CaptureRequest ids_request(const TemporaryFolder& folder, const TinyCheckpoint& tiny) {
  tiny.write(folder.path());
  write_file(folder / "ids.txt", random_ids_text(kTokens, tiny.vocab_size, 7));
  return CaptureRequest{.model = folder.path(),
                        .target = folder / "trace.h5",
                        .ids = folder / "ids.txt",
                        .attention = AttentionStorage::full,
                        .dtype = "f32",
                        .storage = Storage::float32};
}

TEST(Capture, TinyModelsOfEveryShapeAreLikeTheNaiveModel) {
  TinyCheckpoint grouped;
  TinyCheckpoint separate_head{.tied = false};
  TinyCheckpoint one_kv_head{.kv_heads = 1};
  TinyCheckpoint ungrouped{.kv_heads = 4, .head_dim = 4, .hidden_size = 16};
  for (const TinyCheckpoint& tiny : {grouped, separate_head, one_kv_head, ungrouped}) {
    SCOPED_TRACE(tiny.config_text());
    const TemporaryFolder folder;
    CaptureRequest request = ids_request(folder, tiny);
    request.block = 16;
    request.prompt_length = 60;
    const CaptureSummary summary = capture(request);
    EXPECT_EQ(summary.prompt_length, 60);
    EXPECT_EQ(summary.generated, 15);
    const Trace trace(request.target);
    ASSERT_EQ(trace.length(), kTokens);
    EXPECT_EQ(trace.blocks().size(), 4U + 15U);
    EXPECT_TRUE(stored_attention(trace, 0, 0).has_value());
    EXPECT_TRUE(trace.lm_head().has_value());
    expect_like_naive(trace, NaiveModel(folder.path()), 1e-4);
    expect_consistent(trace);
  }
}

TEST(Capture, AFirstTokenOutsideTheVocabularyIsNamed) {
  const TemporaryFolder folder;
  const TinyCheckpoint tiny;
  CaptureRequest request = ids_request(folder, tiny);
  write_file(folder / "tokenizer.json", R"({
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
      "added_tokens": [{"id": 900, "content": "<s>", "special": true}],
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"ids": [900]}}}})");
  const CaptureInput unchanged = read_capture_input(request, read_model_config(folder.path()));
  EXPECT_EQ(unchanged.tokens.ids, read_ids(*request.ids, 1000)) << "ids get no start token";
  EXPECT_THAT(unchanged.notes, Contains(HasSubstr("would start them with token 900")));
  request.ids.reset();
  request.text = "a";
  EXPECT_THAT(
      error_of<FileError>([&] { read_capture_input(request, read_model_config(folder.path())); }),
      HasSubstr("token 900, outside the model's vocabulary"));
}

TEST(Capture, InPlaceOfALargeOutputHeadItsRowsOfTheTokensAreStored) {
  for (const bool tied : {true, false}) {
    for (const WeightStorage weights : {WeightStorage::expanded, WeightStorage::packed}) {
      SCOPED_TRACE(tied);
      SCOPED_TRACE(weights == WeightStorage::packed);
      TinyCheckpoint tiny;
      tiny.vocab_size = 2000;  // more than the states take
      tiny.tied = tied;
      const TemporaryFolder folder;
      CaptureRequest request = ids_request(folder, tiny);
      request.model.weights = weights;
      request.generate = 4;
      capture(request);
      const Trace trace(request.target);
      const TraceFinalNorm norm(trace);
      ASSERT_FALSE(trace.head_row_ids().empty());
      ASSERT_FALSE(trace.has_lm_head() || trace.lm_head().has_value());
      const SafetensorsFile file(folder / "model.safetensors");
      const at::Tensor head = file.tensor(tied ? "model.embed_tokens.weight" : "lm_head.weight")
                                  .to(at::kHalf)
                                  .to(at::kFloat)
                                  .contiguous();
      const float* numbers = head.data_ptr<float>();
      const std::vector<std::int32_t>& ids = trace.tokens().ids;
      for (const std::int32_t id : ids) {
        const Eigen::VectorXd row = norm.head_row(id);
        ASSERT_EQ(row.size(), tiny.hidden_size);
        for (Eigen::Index i = 0; i < row.size(); ++i) {
          ASSERT_EQ(row[i], numbers[id * tiny.hidden_size + i]) << id;
        }
      }
      request.lm_head = true;
      request.target = folder / "whole.h5";
      capture(request);
      const Trace whole(request.target);
      ASSERT_TRUE(whole.lm_head().has_value());
      ASSERT_EQ(whole.tokens().ids, ids);
      const LogitPath of_rows(trace), of_whole(whole);
      for (int token = 0; token + 1 < trace.length(); ++token) {
        const std::int32_t next = ids[static_cast<std::size_t>(token) + 1];
        ASSERT_TRUE(of_rows.gradient(token, next) == of_whole.gradient(token, next)) << token;
      }
    }
  }
}

TEST(Capture, BlockSizeChangesNothingButRounding) {
  const TinyCheckpoint tiny;
  const TemporaryFolder folder;
  CaptureRequest request = ids_request(folder, tiny);
  const NaiveModel naive(folder.path());
  for (const int block : {1, 7, 64, kTokens, 1000}) {
    SCOPED_TRACE(block);
    request.block = block;
    request.target = folder / (std::to_string(block) + ".h5");
    capture(request);
    const Trace trace(request.target);
    EXPECT_EQ(trace.run().block_size, block);
    const int steps = (kTokens + block - 1) / block;
    ASSERT_EQ(trace.blocks().size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(trace.blocks().back().end, kTokens);
    expect_like_naive(trace, naive, 1e-4);
  }
}

TEST(Capture, WhatIsStoredInFloat16IsConsistentWithItself) {
  const TinyCheckpoint tiny;
  for (const char* dtype : {"f32", "bf16"}) {
    SCOPED_TRACE(dtype);
    const TemporaryFolder folder;
    CaptureRequest request = ids_request(folder, tiny);
    request.dtype = dtype;
    request.storage = Storage::float16;
    request.block = 32;
    capture(request);
    const Trace trace(request.target);
    EXPECT_EQ(trace.run().dtype, dtype);
    expect_consistent(trace);
    expect_like_naive(trace, NaiveModel(folder.path()), std::string(dtype) == "f32" ? 2e-2 : 0.5);
  }
}

TEST(Capture, TheTraceNamesItsModelAndNoFolder) {
  TinyCheckpoint tiny;
  const TemporaryFolder folder;
  CaptureRequest request = ids_request(folder, tiny);
  const CaptureSummary summary = capture(request);
  const std::string expected = model_fingerprint(request.model.path, unwatched);
  EXPECT_TRUE(is_model_fingerprint(expected)) << expected;
  EXPECT_EQ(summary.fingerprint, expected);
  EXPECT_EQ(stored_model_fingerprint(request.target), expected);
  const std::string bytes = file_text(request.target);
  EXPECT_EQ(bytes.find(folder.path().string()), std::string::npos) << "a path is nobody's business";
}

TEST(Capture, GeneratesGreedilyAndStopsAtEos) {
  TinyCheckpoint tiny;
  const TemporaryFolder folder;
  CaptureRequest request = ids_request(folder, tiny);
  request.generate = 12;
  EXPECT_EQ(capture(request).generated, 12);
  const std::vector<std::int32_t> ids = Trace(request.target).tokens().ids;
  ASSERT_EQ(ids.size(), kTokens + 12U);
  const NaiveModel::Result naive = NaiveModel(folder.path()).run(ids);
  for (std::size_t t = kTokens; t < ids.size(); ++t) {
    const Row& before = naive.log_probabilities[t - 1];
    EXPECT_NEAR(before[ids[t]], *std::max_element(before.begin(), before.end()), 1e-4);
  }
  // The third generated token as EOS: the run ends with it.
  const std::int32_t eos = ids[kTokens + 2];
  std::string config = tiny.config_text();
  config.insert(1, "\"eos_token_id\":[" + std::to_string(eos) + "],");
  write_file(folder / "config.json", config);
  request.target = folder / "stopped.h5";
  capture(request);
  const Trace stopped(request.target);
  const auto first = std::find(ids.begin() + kTokens, ids.end(), eos);
  EXPECT_EQ(stopped.tokens().ids, std::vector<std::int32_t>(ids.begin(), first + 1));
  expect_like_naive(stopped, NaiveModel(folder.path()), 1e-4);
}

TEST(Capture, AnyEndThatEitherConfigNamesEndsTheText) {
  const TemporaryFolder folder;
  const TinyCheckpoint tiny;
  tiny.write(folder.path());
  const auto ends_with = [&](const std::string& config, const char* generation) {
    write_file(folder / "config.json", config);
    write_file(folder / "generation_config.json", generation);
    const ModelConfig read = read_model_config(folder.path());
    std::vector<std::int32_t> ends;
    for (std::int32_t id = 0; id < tiny.vocab_size; ++id) {
      if (ends_text(id, read, nullptr)) ends.push_back(id);
    }
    return ends;
  };
  std::string three = tiny.config_text();
  three.insert(1, "\"eos_token_id\":3,");
  EXPECT_THAT(ends_with(three, R"({"eos_token_id": [9, 3, 5]})"), ElementsAre(3, 5, 9));
  EXPECT_THAT(ends_with(three, R"({"eos_token_id": 4, "temperature": 0.6})"), ElementsAre(3, 4));
  EXPECT_THAT(ends_with(three, R"({"eos_token_id": null})"), ElementsAre(3));
  EXPECT_THAT(ends_with(tiny.config_text(), R"({"eos_token_id": [7]})"), ElementsAre(7));
  EXPECT_THAT(ends_with(tiny.config_text(), "{}"), ElementsAre());

  for (const auto& [text, problem] :
       {std::pair<std::string, const char*>(R"({"eos_token_id": "two"})", "eos_token_id"),
        {R"({"eos_token_id": [1, -2]})", "eos_token_id"},
        {R"({"eos_token_id": [[1]]})", "eos_token_id"},
        {R"({"eos_token_id": 3000000000})", "eos_token_id"},
        {R"({"eos_token_id": 1.5})", "eos_token_id"},
        {"[2]", "not a generation config"},
        {"{", "not valid JSON"},
        {"", "not valid JSON"},
        {std::string(1000000, '['), "nested too deep"}}) {
    write_file(folder / "generation_config.json", text);
    EXPECT_THAT(error_of<FileError>([&] { read_model_config(folder.path()); }),
                AllOf(HasSubstr("generation_config.json: "), HasSubstr(problem)))
        << problem;
  }
}

TEST(Capture, ALongPromptIsNotedAndCancellingLeavesNothing) {
  TinyCheckpoint tiny{.max_position_embeddings = kTokens - 1};
  const TemporaryFolder folder;
  const CaptureRequest request = ids_request(folder, tiny);
  Progress progress;
  QuietObserver observer;
  run_capture(request, progress, observer);
  EXPECT_THAT(observer.notes, Contains(HasSubstr("74 positions")));
  std::filesystem::remove(request.target);
  progress.cancel();
  EXPECT_THROW(run_capture(request, progress, observer), Cancelled);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::AnyOf("config.json", "model.safetensors", "ids.txt"));
  }
}

TEST(Capture, WeightsThatAreNotNumbersAreReported) {
  const TinyCheckpoint tiny;
  const TemporaryFolder folder;
  const CaptureRequest request = ids_request(folder, tiny);
  std::string bytes = file_text(folder / "model.safetensors");
  bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xC0\x7F", 4));  // NaN in the last norm
  write_file(folder / "model.safetensors", bytes);
  EXPECT_THROW(capture(request), WorkError);
  EXPECT_FALSE(std::filesystem::exists(request.target));
}

}  // namespace
}  // namespace kvloupe::test
