// The size of a trace that a run foretells, against the file that it writes.
#include "analysis/trace/trace_size.h"
#include "analysis/policy/kit/spec.h"
#include "capture/checkpoint/safetensors.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/capture/whole_model.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

class SizeObserver : public QuietObserver {
 public:
  void on_size(const TraceSize& told, const std::string& line) override {
    size = told;
    text = line;
  }
  std::optional<TraceSize> size;
  std::string text;
};

struct TraceSizeTest : testing::Test {
  /// A run over so many ids in float32, stored as float16.
  CaptureRequest request(const TinyCheckpoint& tiny, int tokens) const {
    tiny.write(folder_.path());
    write_file(folder_ / "ids.txt", random_ids_text(tokens, tiny.vocab_size, 7));
    return CaptureRequest{.model = folder_.path(),
                          .target = folder_ / "trace.h5",
                          .ids = folder_ / "ids.txt",
                          .dtype = "f32"};
  }
  static SizeObserver run(const CaptureRequest& wanted) {
    SizeObserver observer;
    run_capture(wanted, unwatched, observer);
    return observer;
  }
  /// Bytes of all datasets whose path ends so.
  static std::uint64_t stored(const Trace& trace, const std::vector<std::string>& ends) {
    std::uint64_t bytes = 0;
    for (const Trace::DatasetInfo& dataset : trace.datasets()) {
      for (const std::string& end : ends) {
        if (dataset.path.ends_with(end)) bytes += dataset.stored_bytes;
      }
    }
    return bytes;
  }
  static std::string type_of(const Trace& trace, const std::string& path) {
    for (const Trace::DatasetInfo& dataset : trace.datasets()) {
      if (dataset.path == path) return dataset.type;
    }
    return "missing";
  }
  /// The model's weights in another type.
  void convert_weights(at::ScalarType type) const {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    const std::filesystem::path path = folder_ / "model.safetensors";
    {
      const SafetensorsFile file(path);
      for (const auto& [name, entry] : file.entries()) {
        tensors.emplace_back(name, file.tensor(name).to(type));
      }
    }
    write_safetensors(path, tensors);
  }

  const TemporaryFolder folder_;
};

/// Larger than HDF5's own bytes, and yet fast.
TinyCheckpoint wide_checkpoint() {
  return TinyCheckpoint{.layers = 3,
                        .heads = 6,
                        .kv_heads = 3,
                        .head_dim = 32,
                        .hidden_size = 96,
                        .vocab_size = 500,
                        .max_position_embeddings = 1000};
}

TEST_F(TraceSizeTest, IsThatOfTheFileForEveryShapeAndOption) {
  TinyCheckpoint one_head = wide_checkpoint();
  one_head.kv_heads = 1;
  one_head.layers = 5;
  TinyCheckpoint many_words = wide_checkpoint();
  many_words.vocab_size = 5000;
  const auto plain = [](CaptureRequest&) {};
  struct Case {
    const char* what;
    TinyCheckpoint model;
    int tokens;
    std::function<void(CaptureRequest&)> change;
  };
  const std::vector<Case> cases{
      {"short", wide_checkpoint(), 54, plain},
      {"two chunks", wide_checkpoint(), 260, plain},
      {"long", wide_checkpoint(), 700, plain},
      {"one key-value head", one_head, 300, plain},
      {"float32", wide_checkpoint(), 300, [](CaptureRequest& r) { r.storage = Storage::float32; }},
      {"attention", wide_checkpoint(), 300,
       [](CaptureRequest& r) { r.attention = AttentionStorage::full; }},
      {"attention in one chunk", wide_checkpoint(), 75,
       [](CaptureRequest& r) { r.attention = AttentionStorage::automatic; }},
      {"output head", wide_checkpoint(), 54, [](CaptureRequest& r) { r.lm_head = true; }},
      {"rows of the output head", many_words, 300, plain},
      {"its rows and generated tokens", many_words, 60, [](CaptureRequest& r) { r.generate = 40; }},
      {"generated", wide_checkpoint(), 60, [](CaptureRequest& r) { r.generate = 40; }},
      {"forced", wide_checkpoint(), 300, [](CaptureRequest& r) { r.prompt_length = 250; }},
      {"small blocks", wide_checkpoint(), 300, [](CaptureRequest& r) { r.block = 16; }},
      {"closed loop", wide_checkpoint(), 300,
       [](CaptureRequest& r) {
         r.policy = parse_policy("h2o");
         r.budget = parse_budget("25%");
       }},
      {"probe", wide_checkpoint(), 300,
       [](CaptureRequest& r) {
         r.block = kWholePrompt;
         r.probe = ProbeKind::reread;
       }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    CaptureRequest wanted = request(one.model, one.tokens);
    one.change(wanted);
    const SizeObserver told = run(wanted);
    ASSERT_TRUE(told.size);
    const Trace trace(wanted.target);
    const auto bytes = static_cast<double>(std::filesystem::file_size(wanted.target));
    EXPECT_NEAR(static_cast<double>(told.size->total()) / bytes, 1.0, 0.05)
        << told.text << ", and takes " << bytes;
    EXPECT_EQ(told.size->states,
              stored(trace, {"/query", "/key", "/value", "/probe_query", "/probe_key"}));
    EXPECT_EQ(told.size->attention, stored(trace, {"/attention"}));
    EXPECT_EQ(told.size->output_weights, stored(trace, {"/output_weight"}));
    EXPECT_EQ(told.size->lm_head, stored(trace, {"/lm_head"}));
    EXPECT_EQ(stored(trace, {"/lm_head_rows"}) == 0, trace.lm_head().has_value());
    EXPECT_THAT(told.text, HasSubstr(std::to_string(trace.length()) + " tokens"));
    EXPECT_THAT(told.text, HasSubstr(wanted.generate > 0 ? " at most " : " about "));
  }
}

TEST_F(TraceSizeTest, ChunksAreEvenSoThatFewTokensTakeLittle) {
  // 257 tokens in chunks of 256 would take what 512 tokens take.
  const CaptureRequest wanted = request(wide_checkpoint(), 257);
  run(wanted);
  const std::uint64_t states = stored(Trace(wanted.target), {"/query", "/key", "/value"});
  EXPECT_EQ(states, 3U * 12 * 258 * 32 * 2);
}

TEST_F(TraceSizeTest, AttentionIsStoredOnDemandAndUpTo64Megabytes) {
  TinyCheckpoint tiny{.heads = 16, .head_dim = 2, .max_position_embeddings = 2000};
  const auto has_attention = [&](int tokens, std::optional<AttentionStorage> storage) {
    CaptureRequest wanted = request(tiny, tokens);
    if (storage) wanted.attention = *storage;
    const SizeObserver told = run(wanted);
    const Trace trace(wanted.target);
    EXPECT_EQ(told.size->attention, stored(trace, {"/attention"}));
    EXPECT_EQ(told.text.find("attention matrices") != std::string::npos,
              stored_attention(trace, 0, 0).has_value());
    return stored_attention(trace, 0, 0).has_value();
  };
  EXPECT_FALSE(has_attention(20, std::nullopt)) << "nothing reads it";
  EXPECT_FALSE(has_attention(20, AttentionStorage::none));
  // 2 · 16 matrices of 66 chunks: of 119 · 119 numbers (60 MB), or of 128 · 128 (69 MB).
  EXPECT_TRUE(has_attention(1300, AttentionStorage::automatic));
  EXPECT_FALSE(has_attention(1400, AttentionStorage::automatic));
  EXPECT_TRUE(has_attention(1400, AttentionStorage::full));
}

TEST_F(TraceSizeTest, TheOutputHeadIsStoredOnDemandAndWhereItIsSmallerThanTheStates) {
  TinyCheckpoint tiny;    // 192 bytes of states a token in float16
  tiny.vocab_size = 400;  // 400 · 20 · 2 = 16000 bytes
  const auto has_head = [&](int tokens, const std::function<void(CaptureRequest&)>& change) {
    CaptureRequest wanted = request(tiny, tokens);
    change(wanted);
    run(wanted);
    return Trace(wanted.target).lm_head().has_value();
  };
  const auto plain = [](CaptureRequest&) {};
  EXPECT_FALSE(has_head(83, plain));
  EXPECT_TRUE(has_head(84, plain));
  EXPECT_TRUE(has_head(42, [](CaptureRequest& r) { r.storage = Storage::float32; }));
  EXPECT_TRUE(has_head(80, [](CaptureRequest& r) { r.generate = 4; }));
  EXPECT_TRUE(has_head(10, [](CaptureRequest& r) { r.lm_head = true; }));
}

TEST_F(TraceSizeTest, RowsOfTheOutputHeadAreThoseOfDifferentTokens) {
  TinyCheckpoint tiny{.vocab_size = 4000};
  CaptureRequest wanted = request(tiny, 50);
  write_file(folder_ / "ids.txt", "3 9 3 3 9 3999 0 9 3 3");
  run(wanted);
  EXPECT_EQ(type_of(Trace(wanted.target), "/model/lm_head_rows"), "float16");
  EXPECT_EQ(stored(Trace(wanted.target), {"/lm_head_rows"}), 4U * 20 * 2);
  EXPECT_EQ(stored(Trace(wanted.target), {"/lm_head_row_ids"}), 4U * 4);
  wanted.lm_head = true;
  run(wanted);
  EXPECT_EQ(type_of(Trace(wanted.target), "/model/lm_head_rows"), "missing");
  EXPECT_EQ(type_of(Trace(wanted.target), "/model/lm_head_row_ids"), "missing");
}

TEST_F(TraceSizeTest, OutputWeightsThatWereFloat16StayFloat16AndExact) {
  const std::string path = "/layers/1/output_weight";
  for (const auto& [type, name] :
       {std::pair{at::kHalf, "float16"}, {at::kBFloat16, "float32"}, {at::kFloat, "float32"}}) {
    SCOPED_TRACE(name);
    CaptureRequest wanted = request(wide_checkpoint(), 60);
    convert_weights(type);
    wanted.storage = Storage::float32;
    const SizeObserver told = run(wanted);
    const Trace trace(wanted.target);
    EXPECT_EQ(type_of(trace, path), name);
    EXPECT_EQ(told.size->output_weights, stored(trace, {"/output_weight"}));
    const SafetensorsFile file(folder_ / "model.safetensors");
    const at::Tensor weight = file.tensor("model.layers.1.self_attn.o_proj.weight")
                                  .to(at::kFloat)
                                  .contiguous();  // [D,Hq·d]
    const OutputWeight slice = *trace.output_weight(1, 2);
    for (const auto& [c, column] : cells(slice.rows(), slice.cols())) {
      ASSERT_EQ(slice(c, column), weight[column][2 * 32 + c].item<float>());
    }
    wanted.storage = Storage::float16;
    run(wanted);
    EXPECT_EQ(type_of(Trace(wanted.target), path), "float16");
  }
}

TEST_F(TraceSizeTest, AFullDiskIsForeseenBeforeTheModelIsRead) {
  CaptureRequest wanted = request(wide_checkpoint(), 100);
  const SizeObserver told = run(wanted);
  const std::uint64_t needed = told.size->total();
  std::filesystem::remove(wanted.target);
  wanted.free_space = [&](const std::filesystem::path& folder) {
    EXPECT_EQ(folder, folder_.path());
    return std::optional<std::uint64_t>(needed);
  };
  run(wanted);
  EXPECT_TRUE(std::filesystem::remove(wanted.target));
  wanted.free_space = [](const auto&) { return std::optional<std::uint64_t>(); };
  run(wanted);
  EXPECT_TRUE(std::filesystem::remove(wanted.target));

  std::filesystem::remove(folder_ / "model.safetensors");
  const auto problem = [&](std::uint64_t free) -> std::string {
    wanted.free_space = [=](const auto&) { return std::optional(free); };
    SizeObserver observer;
    return error_of<FileError>([&] { run_capture(wanted, unwatched, observer); });
  };
  const std::string plain = problem(needed - 1);
  EXPECT_THAT(plain, HasSubstr("trace.h5: needs " + bytes_text(needed)));
  EXPECT_THAT(plain, HasSubstr("are free there; free some space, choose another folder, or"));
  EXPECT_THAT(plain, Not(HasSubstr("--attention")));
  EXPECT_THAT(problem(12'000), HasSubstr("12 kB are free there"));
  wanted.attention = AttentionStorage::full;
  wanted.lm_head = true;
  wanted.generate = 5;
  const std::string more = problem(0);
  EXPECT_THAT(more, HasSubstr("--attention none"));
  EXPECT_THAT(more, HasSubstr("--lm-head"));
  EXPECT_THAT(more, HasSubstr("--generate"));
  EXPECT_EQ(more.find('\n'), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(wanted.target));
}

}  // namespace
}  // namespace kvloupe::test
