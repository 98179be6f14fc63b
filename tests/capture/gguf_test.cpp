// GGUF files: every type against the package gguf's numbers, the families against the same weights
// in safetensors, packed weights against expanded ones, and files that are split, hostile or
// broken.
#include <bit>

#include "analysis/math/rope_scaling.h"
#include "analysis/trace/model_files.h"
#include "capture/gguf/gguf_config.h"
#include "capture/gguf/gguf_model.h"
#include "capture/gguf/gguf_type.h"
#include "capture/model/available_memory.h"
#include "capture/model/load_transformer.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST(GgufTypes, ExpandToTheNumbersOfThePackageGguf) {
  std::ifstream vectors(KVLOUPE_SOURCE_DIR "/tests/capture/gguf/vectors.txt");
  std::set<std::string> seen;
  for (std::string line; std::getline(vectors, line);) {
    std::istringstream words(line);
    std::string name, block, expected;
    words >> name >> block >> expected;
    SCOPED_TRACE(name);
    seen.insert(name);
    const auto types = gguf_types();
    const auto type = std::find_if(types.begin(), types.end(),
                                   [&](const GgufType& one) { return one.name == name; });
    ASSERT_NE(type, types.end());
    const std::string bytes = from_hex(block);
    ASSERT_EQ(bytes.size(), static_cast<std::size_t>(type->bytes));
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(8 * type->block));
    std::vector<float> numbers(static_cast<std::size_t>(type->block));
    type->expand(reinterpret_cast<const std::byte*>(bytes.data()), 1, numbers.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(numbers[i]),
                std::stoul(expected.substr(8 * i, 8), nullptr, 16))
          << i;
    }
  }
  std::size_t readable = 0;
  for (const GgufType& type : gguf_types()) readable += type.expand != nullptr;
  EXPECT_EQ(seen.size(), readable);
}

TEST(GgufTypes, SeveralBlocksLieOneAfterTheOther) {
  for (const GgufType& type : gguf_types()) {
    if (type.expand == nullptr) continue;
    SCOPED_TRACE(type.name);
    std::string bytes(static_cast<std::size_t>(3 * type.bytes), '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37 % 60);
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    const auto size = static_cast<std::size_t>(type.block);
    std::vector<float> all(3 * size), one(size);
    type.expand(first, 3, all.data());
    for (std::size_t i = 0; i < 3; ++i) {
      type.expand(first + i * static_cast<std::size_t>(type.bytes), 1, one.data());
      EXPECT_EQ(std::memcmp(one.data(), all.data() + i * size, size * sizeof(float)), 0) << i;
    }
  }
}

struct Case {
  const char* name;
  const char* architecture;
  const char* more;  // of config.json
  int heads, kv_heads, head_dim, hidden_size;
  bool tied;
};

constexpr const char* kLlama3 =
    R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})";
constexpr const char* kYarn =
    R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 64}})";

const Case kCases[] = {
    {"Llama", "LlamaForCausalLM", "{}", 4, 2, 6, 20, false},
    {"LlamaTied", "LlamaForCausalLM", "{}", 4, 4, 8, 32, true},
    {"LlamaLlama3", "LlamaForCausalLM", kLlama3, 4, 1, 16, 24, true},
    {"LlamaLinear", "LlamaForCausalLM",
     R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})", 4, 2, 8, 20, true},
    {"LlamaBiases", "LlamaForCausalLM", R"({"attention_bias": true, "mlp_bias": true})", 6, 3, 4,
     20, false},
    {"MistralWindow", "MistralForCausalLM", R"({"sliding_window": 13})", 4, 2, 6, 20, false},
    {"Qwen2", "Qwen2ForCausalLM", "{}", 4, 2, 6, 24, true},
    {"Qwen2Yarn", "Qwen2ForCausalLM", kYarn, 4, 2, 16, 24, true},
    {"Qwen3", "Qwen3ForCausalLM", R"({"attention_bias": false})", 4, 2, 10, 18, true},
    {"Qwen3Biases", "Qwen3ForCausalLM", R"({"attention_bias": true})", 4, 1, 8, 20, false},
    {"Phi3", "Phi3ForCausalLM", R"({"sliding_window": 13})", 4, 2, 6, 24, false},
    {"Granite", "GraniteForCausalLM",
     R"({"attention_multiplier": 0.3, "embedding_multiplier": 3.0, "residual_multiplier": 0.6,
         "logits_scaling": 2.5})",
     4, 2, 6, 20, true},
    {"SmolLm3", "SmolLM3ForCausalLM", "{}", 4, 2, 6, 20, true},
    {"Olmo2", "Olmo2ForCausalLM", "{}", 4, 2, 6, 20, false},
    {"Gemma2", "Gemma2ForCausalLM",
     R"({"sliding_window": 13, "query_pre_attn_scalar": 6, "attn_logit_softcapping": 2.0,
         "final_logit_softcapping": 5.0})",
     4, 2, 6, 20, true},
    {"Gemma3", "Gemma3ForCausalLM",
     R"({"sliding_window": 13, "query_pre_attn_scalar": 6, "sliding_window_pattern": 2,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 50.0})",
     4, 2, 6, 20, true},
    {"Mixtral", "MixtralForCausalLM", R"({"num_local_experts": 5, "num_experts_per_tok": 2})", 4, 2,
     6, 20, false},
    {"Qwen3Moe", "Qwen3MoeForCausalLM",
     R"({"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 10,
         "norm_topk_prob": true})",
     4, 2, 6, 20, false},
    {"GptOss", "GptOssForCausalLM",
     R"({"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 13,
         "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": false,
         "original_max_position_embeddings": 64}})",
     4, 2, 16, 20, false},
};

TinyCheckpoint tiny_of(const Case& c) {
  return TinyCheckpoint{.architecture = c.architecture,
                        .heads = c.heads,
                        .kv_heads = c.kv_heads,
                        .head_dim = c.head_dim,
                        .hidden_size = c.hidden_size,
                        .tied = c.tied,
                        .more = c.more};
}

struct GgufFamilies : testing::TestWithParam<Case> {
  GgufFamilies() : tiny_(tiny_of(GetParam())) {
    std::filesystem::create_directory(folder_ / "model");
    tiny_.write(folder_ / "model");
    write_file(folder_ / "model.gguf", tiny_.gguf().bytes());
    write_file(folder_ / "ids.txt", random_ids_text(40, tiny_.vocab_size, 5));
  }
  CaptureRequest request(const char* model, const char* target) const {
    return CaptureRequest{.model = folder_ / model,
                          .target = folder_ / target,
                          .ids = folder_ / "ids.txt",
                          .block = 16,
                          .generate = 3,
                          .dtype = "f32",
                          .storage = Storage::float32};
  }
  TinyCheckpoint tiny_;
  const TemporaryFolder folder_;
};

TEST_P(GgufFamilies, WeightsAreThoseOfTheFolderBitByBit) {
  const ModelConfig expected = read_model_config(folder_ / "model");
  const ModelConfig config = read_model_config(folder_ / "model.gguf");
  EXPECT_EQ(config.architecture, expected.architecture);
  EXPECT_EQ(config.sliding_window, expected.sliding_window);
  EXPECT_EQ(config.rms_norm_eps, expected.rms_norm_eps);
  EXPECT_EQ(config.rope_theta, expected.rope_theta);
  EXPECT_EQ(config.tied_head, expected.tied_head);
  EXPECT_EQ(config.max_position_embeddings, expected.max_position_embeddings);
  EXPECT_EQ(config.attention_scale, expected.attention_scale);
  EXPECT_EQ(config.attention_softcap, expected.attention_softcap);
  EXPECT_EQ(config.experts.per_token, expected.experts.per_token);
  for (int layer = 0; layer < tiny_.layers; ++layer) {
    const LayerConfig &own = config.layer(layer), &other = expected.layer(layer);
    EXPECT_EQ(own.sliding_window, other.sliding_window);
    EXPECT_EQ(own.rotates, other.rotates);
    EXPECT_EQ(rope_frequencies(own.rope_theta, tiny_.head_dim, own.rope_scaling),
              rope_frequencies(other.rope_theta, tiny_.head_dim, other.rope_scaling));
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Transformer folder = load_transformer(folder_ / "model", expected, type, at::kCPU);
    const Transformer file = load_transformer(folder_ / "model.gguf", config, type, at::kCPU);
    ASSERT_EQ(file.weights().size(), folder.weights().size());
    for (const auto& [name, tensor] : folder.weights()) {
      // Gemma's norms lack 1 in the folder; the trace shows that both multiply alike.
      if (expected.norm_offset != 0.0 && name.ends_with("norm.weight")) continue;
      EXPECT_TRUE(at::equal(file.weight(name), tensor)) << name;
    }
  }
}

TEST_P(GgufFamilies, TracesAreThoseOfTheFolderHoweverWeightsAreKept) {
  capture(request("model", "folder.h5"));
  const Trace expected(folder_ / "folder.h5");
  for (const WeightStorage storage : {WeightStorage::expanded, WeightStorage::packed}) {
    for (const char* model : {"model", "model.gguf"}) {
      SCOPED_TRACE(model);
      CaptureRequest wanted = request(model, "other.h5");
      wanted.model.weights = storage;
      capture(wanted);
      const Trace trace(folder_ / "other.h5");
      expect_same_numbers(trace, expected);
      const bool is_file = std::string(model) == "model.gguf";
      EXPECT_EQ(trace.model().name, is_file ? "Tiny 1" : "model");
      EXPECT_EQ(trace.model().weights_format, is_file ? "GGUF" : "");
      EXPECT_EQ(trace.model().weights_type, is_file ? "F32" : "");
      EXPECT_EQ(trace.model().weights_file, is_file ? "model.gguf" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFamilies, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

struct GgufFile : testing::Test {
  GgufFile() { tiny_.write(folder_.path()); }

  std::filesystem::path path() const { return folder_ / "m.gguf"; }
  void write(const GgufBytes& file) const { write_file(path(), file.bytes()); }
  Transformer load() const {
    return load_transformer(path(), read_model_config(path()), at::kFloat, at::kCPU);
  }
  /// The line that refuses the file; it names the file.
  std::string problem(const GgufBytes& file) const { return problem_of(file.bytes()); }
  std::string problem_of(const std::string& bytes) const {
    write_file(path(), bytes);
    try {
      load();
    } catch (const FileError& error) {
      const std::string line = error.what();
      EXPECT_THAT(line, HasSubstr("m.gguf"));
      EXPECT_EQ(line.find('\n'), std::string::npos);
      return line;
    }
    return "";
  }

  TinyCheckpoint tiny_;
  const TemporaryFolder folder_;
};

TEST_F(GgufFile, AnyAlignmentAndVersion2) {
  const Transformer expected =
      load_transformer(folder_.path(), read_model_config(folder_.path()), at::kFloat, at::kCPU);
  for (const std::uint32_t version : {2U, 3U}) {
    for (const std::uint64_t alignment : {1, 3, 8, 64, 4096}) {
      GgufBytes file = tiny_.gguf();
      file.version = version;
      file.alignment = alignment;
      write(file);
      const Transformer model = load();
      for (const auto& [name, tensor] : expected.weights()) {
        EXPECT_TRUE(at::equal(model.weight(name), tensor)) << name;
      }
    }
  }
}

TEST_F(GgufFile, HeadCountsMayBeAnArrayOfEqualNumbers) {
  GgufBytes file = tiny_.gguf();
  file.wholes("llama.attention.head_count_kv", {2, 2});
  file.wholes("llama.attention.head_count", {4, 4});
  EXPECT_EQ(problem(file), "");
  file.wholes("llama.attention.head_count_kv", {2, 1});
  EXPECT_THAT(problem(file), AllOf(HasSubstr("llama.attention.head_count_kv"), HasSubstr("layer")));
}

TEST_F(GgufFile, FactorsOfARotationThatFitNoScalingAreUsedAsTheyAre) {
  GgufBytes file = tiny_.gguf();
  const std::vector<float> factors{1.0F, 2.5F, 1.5F};
  file.tensor("rope_freqs.weight", {3}, 0,
              {reinterpret_cast<const char*>(factors.data()), 3 * sizeof(float)});
  write(file);
  const ModelConfig config = read_model_config(path());
  EXPECT_EQ(config.rope_scaling.type, RopeScaling::Type::factors);
  const std::vector<double> plain = rope_frequencies(500.0, 6, {});
  const std::vector<double> scaled = rope_frequencies(500.0, 6, config.rope_scaling);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_DOUBLE_EQ(scaled[j] * double{factors[j]}, plain[j]);
  EXPECT_EQ(parse_rope_scaling(rope_scaling_json(config.rope_scaling)), config.rope_scaling);
}

TEST_F(GgufFile, RotationsAreReadUnderOtherConvertersNames) {
  const auto read = [&](const TinyCheckpoint& tiny, const std::function<void(GgufBytes&)>& change) {
    GgufBytes file = tiny.gguf();
    change(file);
    write(file);
    return read_model_config(path());
  };
  // A factor without a type is llama.cpp's linear scaling; type none means none.
  const char* kFactor = "llama.rope.scaling.factor";
  EXPECT_EQ(read(tiny_, [&](auto& f) { f.real(kFactor, 4.0F); }).rope_scaling.factor, 4.0);
  EXPECT_EQ(
      read(tiny_, [&](auto& f) { f.real("llama.rope.scale_linear", 4.0F); }).rope_scaling.type,
      RopeScaling::Type::linear);
  EXPECT_EQ(
      read(tiny_, [&](auto& f) { f.real(kFactor, 4.0F).text("llama.rope.scaling.type", "none"); })
          .rope_scaling,
      RopeScaling());
  // Ollama's Gemma 3: two bases, and the windows by layer.
  TinyCheckpoint gemma{.architecture = "Gemma3ForCausalLM", .more = R"({"sliding_window": 13})"};
  const auto ollama = [](auto& f) {
    f.without("gemma3.rope.freq_base").real("gemma3.rope.global.freq_base", 700.0F);
    f.real("gemma3.rope.local.freq_base", 60.0F);
    f.raw("gemma3.attention.sliding_window_pattern", 9,
          bytes_of_number(std::uint32_t{7}) + bytes_of_number(std::uint64_t{2}) +
              std::string("\0\1", 2));
  };
  const ModelConfig config = read(gemma, ollama);
  EXPECT_EQ(config.layer(0).rope_theta, 700.0);
  EXPECT_EQ(config.layer(0).sliding_window, 0);
  EXPECT_EQ(config.layer(1).rope_theta, 60.0);
  EXPECT_EQ(config.layer(1).sliding_window, 13);
  GgufBytes both = gemma.gguf();
  EXPECT_THAT(problem(both.real("gemma3.rope.global.freq_base", 700.0F)),
              HasSubstr("rope.global.freq_base"));
  GgufBytes none = gemma.gguf();
  EXPECT_THAT(problem(none.without("gemma3.rope.freq_base")), HasSubstr("freq_base\" is missing"));
}

TEST_F(GgufFile, AMixtureIsCalledByItsNameAndItsTypes) {
  for (const auto& [number, types] : {std::pair{15U, "Q4_K_M (F16, F32)"}, {999U, "F16, F32"}}) {
    GgufBytes file;
    file.text("general.architecture", "llama").whole("general.file_type", number);
    file.tensor("a.weight", {2, 2}, 0, std::string(16, '\0'));
    file.tensor("b.weight", {4, 4}, 1, std::string(32, '\0'));
    write(file);
    EXPECT_EQ(GgufModel(path()).types(), types);
  }
}

TEST_F(GgufFile, APartOfASplitModelIsFoundByItsName) {
  const GgufBytes whole = tiny_.gguf();
  std::vector<GgufBytes> parts(3);
  parts[0] = whole;
  parts[0].tensors.clear();
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    parts[i % 3].tensors.push_back(whole.tensors[i]);
  }
  const auto name = [&](std::size_t i) {
    return folder_ / ("s-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  };
  const auto write_parts = [&](std::size_t count, std::uint32_t first = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      parts[i].whole("split.no", static_cast<std::uint32_t>(i) + first).whole("split.count", 3);
      parts[i].raw("split.tensors.count", 5,
                   bytes_of_number(static_cast<std::int32_t>(whole.tensors.size())));
      write_file(name(i), parts[i].bytes());
    }
  };
  const auto problem = [&](const std::filesystem::path& path) -> std::string {
    return error_of<FileError>(
        [&] { load_transformer(path, read_model_config(path), at::kFloat, at::kCPU); });
  };
  write_parts(2);
  EXPECT_THAT(problem(name(0)), AllOf(HasSubstr("s-00003-of-00003"), HasSubstr("missing")));
  write_parts(3);
  EXPECT_EQ(problem(name(0)), "");
  const std::string fingerprint = model_fingerprint(name(0), unwatched);
  EXPECT_TRUE(is_model_fingerprint(fingerprint));
  EXPECT_THAT(problem(name(1)), HasSubstr("first part"));
  std::filesystem::copy_file(name(0), name(2), std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(problem(name(0)), AllOf(HasSubstr("s-00003"), HasSubstr("part 1 of 3")));
  EXPECT_NE(model_fingerprint(name(0), unwatched), fingerprint);
  parts[2].tensors.pop_back();
  write_parts(3);
  EXPECT_THAT(problem(name(0)), HasSubstr("tensors"));
  parts[2].tensors.push_back(parts[1].tensors.front());
  write_parts(3);
  EXPECT_THAT(problem(name(0)), AllOf(HasSubstr("so does"), HasSubstr("s-00002")));
  // A link to itself is not a file.
  std::filesystem::remove(name(2));
  std::filesystem::create_symlink(name(2), name(2));
  EXPECT_NE(problem(name(0)), "");
}

TEST_F(GgufFile, OtherQuantisationsAndNamesHaveFingerprintsOfTheirOwn) {
  write(tiny_.gguf());
  const std::string one = model_fingerprint(path(), unwatched);
  EXPECT_TRUE(is_model_fingerprint(one));
  EXPECT_NE(one, model_fingerprint(folder_.path(), unwatched));
  std::filesystem::rename(path(), folder_ / "renamed.gguf");
  EXPECT_EQ(model_fingerprint(folder_ / "renamed.gguf", unwatched), one);
  GgufBytes other = tiny_.gguf();
  other.tensors.back().bytes[5] = static_cast<char>(other.tensors.back().bytes[5] ^ 1);
  write(other);
  EXPECT_NE(model_fingerprint(path(), unwatched), one);
}

TEST_F(GgufFile, EveryCutIsOneLine) {
  const std::string bytes = tiny_.gguf().bytes();
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 9) {
    EXPECT_NE(problem_of(bytes.substr(0, size)), "") << size;
  }
  EXPECT_THAT(problem_of(bytes.substr(0, bytes.size() - 1)), HasSubstr("end of the file"));
}

TEST_F(GgufFile, CountsBeyondTheFileAreRefusedBeforeMemoryIsTaken) {
  const std::string huge = bytes_of_number(std::uint64_t{1} << 60);
  const std::string bytes = tiny_.gguf().bytes();
  EXPECT_THAT(problem_of(std::string(bytes).replace(8, 8, huge)), HasSubstr("tensors"));
  EXPECT_THAT(problem_of(std::string(bytes).replace(16, 8, huge)), HasSubstr("keys"));
  GgufBytes file = tiny_.gguf();
  file.raw("some.list", 9, bytes_of_number(std::uint32_t{4}) + huge);
  EXPECT_THAT(problem(file), HasSubstr("some.list"));
  file = tiny_.gguf();
  file.raw("some.text", 8, huge);
  EXPECT_THAT(problem(file), HasSubstr("some.text"));
}

TEST_F(GgufFile, DeepArraysAreRefused) {
  std::string deep = bytes_of_number(std::uint32_t{4}) + bytes_of_number(std::uint64_t{0});
  for (int i = 0; i < 1000; ++i) {
    deep = bytes_of_number(std::uint32_t{9}) + bytes_of_number(std::uint64_t{1}) + deep;
  }
  GgufBytes file = tiny_.gguf();
  file.raw("deep.list", 9, deep);
  EXPECT_THAT(problem(file), AllOf(HasSubstr("deep.list"), HasSubstr("deeply")));
}

TEST_F(GgufFile, WhatIsWrongWithATensorIsSaid) {
  const auto with = [&](const std::function<void(GgufBytes::Tensor&)>& change) {
    GgufBytes file = tiny_.gguf();
    for (GgufBytes::Tensor& tensor : file.tensors) {
      if (tensor.name == "blk.1.ffn_up.weight") change(tensor);
    }
    return problem(file);
  };
  const auto names_it = HasSubstr("blk.1.ffn_up.weight");
  EXPECT_THAT(with([](auto& t) { t.type = 77; }), AllOf(names_it, HasSubstr("77")));
  EXPECT_THAT(with([](auto& t) { t.type = 24; }), AllOf(names_it, HasSubstr("I8")));
  EXPECT_THAT(with([](auto& t) { t.type = 8; }), AllOf(names_it, HasSubstr("Q8_0")));
  EXPECT_THAT(with([](auto& t) { std::swap(t.shape[0], t.shape[1]); }),
              AllOf(names_it, HasSubstr("shape")));
  EXPECT_THAT(with([](auto& t) { t.shape = {0, 3}; }), AllOf(names_it, HasSubstr("dimension")));
  EXPECT_THAT(with([](auto& t) {
                t.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
              }),
              names_it);
  EXPECT_THAT(with([](auto& t) {
                t.shape = {1, 1, 1, 1, 1};
              }),
              AllOf(names_it, HasSubstr("dimensions")));
  EXPECT_THAT(with([](auto& t) { t.name = "blk.1.ffn_gate.weight"; }), HasSubstr("twice"));
  EXPECT_THAT(with([](auto& t) { t.name = "blk.1.ffn_gate_exps.weight"; }), HasSubstr("_exps"));
  GgufBytes file = tiny_.gguf();
  file.without_tensor("blk.1.ffn_up.weight");
  EXPECT_THAT(problem(file), AllOf(names_it, HasSubstr("does not contain")));

  // Two tensors of which the second begins within the first.
  const GgufBytes good = tiny_.gguf();
  std::string bytes = good.bytes();
  const std::string name = gguf_string("blk.0.attn_k.weight");
  const std::size_t at = bytes.find(name) + name.size() + 4 + 16 + 4;
  EXPECT_THAT(problem_of(std::string(bytes).replace(at, 8, bytes_of_number(std::uint64_t{64}))),
              HasSubstr("overlaps"));
  EXPECT_THAT(problem_of(std::string(bytes).replace(at, 8, bytes_of_number(~std::uint64_t{31}))),
              AllOf(HasSubstr("attn_k"), HasSubstr("end of the file")));
  EXPECT_THAT(problem_of(std::string(bytes).replace(at, 8, bytes_of_number(std::uint64_t{65}))),
              AllOf(HasSubstr("attn_k"), HasSubstr("alignment")));
}

TEST_F(GgufFile, WhatIsWrongWithAKeyIsSaid) {
  const auto with = [&](const std::function<void(GgufBytes&)>& change) {
    GgufBytes file = tiny_.gguf();
    change(file);
    return problem(file);
  };
  EXPECT_THAT(with([](auto& f) { f.text("general.architecture", "mamba"); }),
              AllOf(HasSubstr("mamba"), HasSubstr("llama, qwen2, qwen3, phi3, granite")));
  EXPECT_THAT(with([](auto& f) { f.without("general.architecture"); }),
              HasSubstr("general.architecture"));
  for (const char* key : {"llama.block_count", "llama.embedding_length",
                          "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    EXPECT_THAT(with([&](auto& f) { f.without(key); }),
                AllOf(HasSubstr(key), HasSubstr("missing")));
    EXPECT_THAT(with([&](auto& f) { f.text(key, "much"); }), HasSubstr(key));
  }
  EXPECT_THAT(with([](auto& f) { f.whole("llama.expert_count", 8); }), HasSubstr("expert"));
  EXPECT_THAT(with([](auto& f) { f.whole("llama.rope.dimension_count", 4); }),
              HasSubstr("rope.dimension_count"));
  EXPECT_THAT(with([](auto& f) { f.whole("llama.attention.value_length", 4); }),
              HasSubstr("value_length"));
  EXPECT_THAT(with([](auto& f) { f.text("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("longrope"));
  for (const auto& [key, value] : {std::pair{"attention.clamp_kqv", 8.0F},
                                   {"attention.scale", 0.5F},
                                   {"rope.scaling.attn_factor", 2.0F},
                                   {"expert_weights_scale", 2.5F},
                                   {"attention.invented", 0.0F}}) {
    const std::string whole = std::string("llama.") + key;
    EXPECT_THAT(with([&](auto& f) { f.real(whole, value); }), HasSubstr(whole));
  }
  EXPECT_THAT(with([](auto& f) { f.flag("llama.attention.causal", false); }),
              AllOf(HasSubstr("llama.attention.causal"), HasSubstr("take another file")));
  EXPECT_EQ(with([](auto& f) {
              f.flag("llama.attention.causal", true).whole("llama.expert_count", 0);
              f.whole("llama.vocab_size", 35).real("llama.rope.scaling.factor", 1.0F);
              f.whole("other.attention.invented", 3).text("general.license", "any");
            }),
            "");
  EXPECT_THAT(with([](auto& f) { f.raw("odd.key", 99, ""); }), HasSubstr("odd.key"));
  EXPECT_THAT(with([](auto& f) { f.version = 1; }), HasSubstr("version 1"));
  EXPECT_THAT(with([](auto& f) { f.version = 3U << 24U; }), HasSubstr("big-endian"));
  EXPECT_THAT(problem_of("GGML" + std::string(100, '\0')), HasSubstr("not a GGUF file"));
}

TEST_F(GgufFile, TextsEndWhereTheFilesTokensSay) {
  const auto ends = [&](std::vector<std::string> special, bool eot) {
    std::vector<std::string> tokens(35, "x");
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] += std::to_string(i);
    tokens.insert(tokens.end(), special.begin(), special.end());
    GgufBytes file = tiny_.gguf();
    file.texts("tokenizer.ggml.tokens", tokens).whole("tokenizer.ggml.eos_token_id", 2);
    if (eot) file.whole("tokenizer.ggml.eot_token_id", 35);
    write(file);
    return read_model_config(path()).eos_token_ids;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(ends({"a", "<end_of_turn>", "<|end|>"}, false), (Ids{2, 36, 37}));
  EXPECT_EQ(ends({"a", "<end_of_turn>", "<|end|>"}, true), (Ids{2, 35}));
  EXPECT_EQ(ends({"<|return|>", "b", "<|end|>"}, false), (Ids{2, 37}));
  // gpt-oss: <|end|> ends a message, not the turn.
  EXPECT_EQ(ends({"<|end|>", "<|return|>", "<|call|>"}, false), (Ids{2, 36, 37}));
  EXPECT_EQ(ends({"<|end|>", "<|return|>", "<|call|>"}, true), (Ids{2, 36, 37}));
}

TEST_F(GgufFile, WhatAFamilyDoesNotHaveIsRefused) {
  const auto problem_with = [&](const char* architecture, const char* more,
                                const std::function<void(GgufBytes&)>& change) {
    TinyCheckpoint tiny{.architecture = architecture, .more = more};
    GgufBytes file = tiny.gguf();
    change(file);
    return problem(file);
  };
  const auto nothing = [](GgufBytes&) {};
  constexpr const char* kMixtral = R"({"num_local_experts": 3, "num_experts_per_tok": 2})";
  EXPECT_EQ(problem_with("MixtralForCausalLM", kMixtral, nothing), "");
  EXPECT_THAT(problem_with("MixtralForCausalLM", kMixtral,
                           [](auto& f) { f.without("llama.expert_used_count"); }),
              AllOf(HasSubstr("expert_used_count"), HasSubstr("missing")));
  EXPECT_THAT(problem_with("MixtralForCausalLM", kMixtral,
                           [](auto& f) { f.whole("llama.expert_count", 4); }),
              AllOf(HasSubstr("ffn_gate_inp"), HasSubstr("[4,20]")));
  EXPECT_THAT(problem_with("MixtralForCausalLM", kMixtral,
                           [](auto& f) { f.without_tensor("blk.1.ffn_up_exps.weight"); }),
              HasSubstr("blk.1.ffn_up_exps.weight"));
  EXPECT_THAT(problem_with("Olmo2ForCausalLM", "{}",
                           [](auto& f) { f.whole("olmo2.attention.sliding_window", 9); }),
              HasSubstr("olmo2.attention.sliding_window"));
  EXPECT_THAT(
      problem_with("Phi3ForCausalLM", "{}",
                   [](auto& f) { f.tensor("rope_factors_long.weight", {3}, 0, "123456789012"); }),
      HasSubstr("longrope"));
  EXPECT_THAT(problem_with("Gemma3ForCausalLM", "{}",
                           [](auto& f) { f.real("gemma3.final_logit_softcapping", -1.0F); }),
              HasSubstr("final_logit_softcapping"));
}

TEST(AvailableMemory, IsTheLessOfTheSystemsAndTheGroups) {
  const TemporaryFolder root;
  const auto file = [&](const char* path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    write_file(root / path, text);
  };
  EXPECT_EQ(available_memory(root.path()), std::numeric_limits<std::int64_t>::max());
  file("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:  4000 kB\n");
  EXPECT_EQ(available_memory(root.path()), 4'096'000);
  file("proc/self/cgroup", "0::/a/b\n");
  file("sys/fs/cgroup/a/b/memory.max", "max\n");
  file("sys/fs/cgroup/a/b/memory.current", "1000000\n");
  EXPECT_EQ(available_memory(root.path()), 4'096'000);
  file("sys/fs/cgroup/a/memory.max", "3000000\n");
  file("sys/fs/cgroup/a/memory.current", "1000000\n");
  EXPECT_EQ(available_memory(root.path()), 2'000'000);
  file("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 300000\nactive_file 200000\n");
  EXPECT_EQ(available_memory(root.path()), 2'500'000);
  file("proc/self/cgroup", "4:cpu,memory:/old\n");
  file("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "900000");
  file("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "1000000");
  EXPECT_EQ(available_memory(root.path()), 0);
}

}  // namespace
}  // namespace kvloupe::test
