#include "capture/checkpoint/safetensors.h"
#include "analysis/base/system/output_file.h"
#include "capture/file/mapped_file.h"
#include "capture/model/load_transformer.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/capture/whole_model.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// The message of the FileError that opening these bytes gives; empty where they open.
std::string problem_of(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file(folder / "x.safetensors", bytes);
  try {
    const SafetensorsFile file(folder / "x.safetensors");
    for (const auto& [name, entry] : file.entries()) {
      if (entry.dtype == "F32") file.tensor(name).sum();  // every byte can be read
    }
    return "";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors: "));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}

std::string entry(const char* name, const char* dtype, const char* shape, const char* offsets) {
  return std::string("\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  at::manual_seed(1);
  const at::Tensor a = at::randn({3, 5});
  const at::Tensor b = at::randn({7}).to(at::kBFloat16);
  const at::Tensor c = at::randn({2, 2, 3}).to(at::kHalf);
  const at::Tensor transposed = at::randn({4, 6}).t();
  const at::Tensor scalar = at::scalar_tensor(2.5, at::kFloat);
  write_safetensors(folder / "w.safetensors",
                    {{"a", a}, {"b", b}, {"c", c}, {"t", transposed}, {"s", scalar}});
  const SafetensorsFile file(folder / "w.safetensors");
  EXPECT_EQ(file.entries().size(), 5U);
  EXPECT_TRUE(at::equal(file.tensor("a"), a));
  EXPECT_TRUE(at::equal(file.tensor("b"), b));
  EXPECT_TRUE(at::equal(file.tensor("c"), c));
  EXPECT_TRUE(at::equal(file.tensor("t"), transposed));
  EXPECT_TRUE(at::equal(file.tensor("s"), scalar));
  EXPECT_THROW(file.tensor("d"), FileError);
  EXPECT_THROW(write_safetensors(folder / "none" / "w.safetensors", {{"a", a}}), FileError);
  EXPECT_THROW(write_safetensors(folder / "w", {{"a", a.to(at::kLong)}}), WorkError);
  std::size_t files = 0;
  for (const auto& left : std::filesystem::directory_iterator(folder.path())) {
    files += left.path().empty() ? 0 : 1;
  }
  EXPECT_EQ(files, 1U);  // nothing half written beside it
}

TEST(Safetensors, ATensorOutlivesItsFileObject) {
  const TemporaryFolder folder;
  write_safetensors(folder / "w.safetensors", {{"a", at::ones({1000})}});
  at::Tensor tensor;
  {
    const SafetensorsFile file(folder / "w.safetensors");
    tensor = file.tensor("a");
  }
  EXPECT_EQ(tensor.sum().item<float>(), 1000.0F);
}

TEST(Safetensors, MisalignedDataIsReadAllTheSame) {
  const float value = 3.5F;
  std::string data(4, '\0');
  std::memcpy(data.data(), &value, 4);
  const TemporaryFolder folder;
  for (const char* padding : {"", " ", "  ", "   "}) {
    write_file(folder / "w",
               safetensors_bytes("{" + entry("a", "F32", "[1]", "[0,4]") + "}" + padding, data));
    EXPECT_EQ(SafetensorsFile(folder / "w").tensor("a").item<float>(), 3.5F);
  }
}

TEST(Safetensors, HostileFilesAreRefused) {
  const std::string eight(8, '\0');
  const std::string good = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";
  EXPECT_EQ(problem_of(safetensors_bytes(good, eight)), "");
  EXPECT_THAT(problem_of(""), HasSubstr("too short"));
  EXPECT_THAT(problem_of("1234567"), HasSubstr("too short"));
  EXPECT_THAT(problem_of(std::string(8, '\xFF')), HasSubstr("impossible header length"));
  EXPECT_THAT(problem_of(std::string("\x80\x96\x98\0\0\0\0\0{}", 10)), HasSubstr("truncated"));
  EXPECT_THAT(problem_of(safetensors_bytes(good, eight).substr(0, 20)), HasSubstr("truncated"));
  EXPECT_THAT(problem_of(safetensors_bytes("[]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem_of(safetensors_bytes("{\"a\":", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem_of(safetensors_bytes(std::string(100000, '['), "")), HasSubstr("not a JSON"));
  EXPECT_THAT(problem_of(safetensors_bytes(good, "1234")), HasSubstr("beyond the end"));
  EXPECT_THAT(problem_of(safetensors_bytes(good, eight + "x")), HasSubstr("more bytes"));

  const auto header = [&](const std::string& one, const std::string& data = std::string(8, '\0')) {
    return problem_of(safetensors_bytes("{" + one + "}", data));
  };
  EXPECT_THAT(header(entry("a", "F32", "[3]", "[0,8]")), HasSubstr("needs 12"));
  EXPECT_THAT(header(entry("a", "F32", "[2]", "[8,0]")), HasSubstr("ends before"));
  EXPECT_THAT(header(entry("a", "F32", "[2]", "[4,12]")), HasSubstr("beyond the end"));
  EXPECT_THAT(header(entry("a", "F32", "[1]", "[4,8]")), HasSubstr("gap"));
  EXPECT_THAT(header(entry("a", "F32", "[2]", "[0,8]") + "," + entry("a", "F32", "[2]", "[0,8]")),
              HasSubstr("names a twice"));
  EXPECT_THAT(header(entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[1]", "[4,8]")),
              HasSubstr("overlap"));
  EXPECT_THAT(header(entry("a", "F32", "[4294967296,4294967296]", "[0,0]"), ""),
              HasSubstr("larger than the file"));
  EXPECT_THAT(header(entry("a", "F32", "[-2]", "[0,8]")), HasSubstr("not whole"));
  EXPECT_THAT(header(entry("a", "F32", "[2.0]", "[0,8]")), HasSubstr("not whole"));
  EXPECT_THAT(header(entry("a", "F32", "2", "[0,8]")), HasSubstr("no shape"));
  EXPECT_THAT(header(entry("a", "F32", "[2]", "[0]")), HasSubstr("no data_offsets"));
  EXPECT_THAT(header(entry("a", "F32", "[2]", "[-1,7]")), HasSubstr("no data_offsets"));
  EXPECT_THAT(header(R"("a":3)"), HasSubstr("no description"));
  EXPECT_THAT(header(R"("a":{"shape":[2],"data_offsets":[0,8]})"), HasSubstr("no dtype"));
  EXPECT_EQ(header(entry("a", "I64", "[1]", "[0,8]")), "");  // others' tensors may lie beside ours
}

TEST(Safetensors, OtherTypesAreNamedWhenAskedFor) {
  const TemporaryFolder folder;
  write_file(folder / "w", safetensors_bytes("{" + entry("a", "I64", "[1]", "[0,8]") + "}",
                                             std::string(8, '\0')));
  EXPECT_THAT(error_of<FileError>([&] { SafetensorsFile(folder / "w").tensor("a"); }),
              HasSubstr("I64"));
}

TEST(Safetensors, DamagedHeadersGiveATensorOrOneClearError) {
  std::mt19937 random(17);
  const TemporaryFolder folder;
  TinyCheckpoint tiny{.layers = 1};
  tiny.write(folder.path());
  const std::string whole = file_text(folder / "model.safetensors");
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, whole.data(), 8);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = whole;
    const unsigned changes = 1 + random() % 3;
    for (unsigned change = 0; change < changes; ++change) {
      const std::size_t at = random() % (8 + header_size);
      const char digits[] = "0123456789,[]{}\"-. \xFF";
      damaged[at] = digits[random() % (sizeof digits - 1)];
    }
    if (round % 10 == 0) damaged.resize(random() % damaged.size());
    refused += problem_of(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
}

struct CheckpointFolder : testing::Test {
  std::string problem() {
    try {
      const ModelConfig config = read_model_config(folder_.path());
      load_transformer(folder_.path(), config, at::kFloat, at::kCPU);
      return "";
    } catch (const FileError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
  }
  TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, MissingAndMisshapenWeightsAreNamed) {
  TinyCheckpoint tiny;
  tiny.write(folder_.path());
  EXPECT_EQ(problem(), "");
  tiny.tied = false;
  write_file(folder_ / "config.json", tiny.config_text());
  EXPECT_THAT(problem(), HasSubstr("not contain the tensor lm_head.weight"));
  tiny.tied = true;
  tiny.intermediate_size = 29;
  write_file(folder_ / "config.json", tiny.config_text());
  EXPECT_THAT(problem(), HasSubstr("mlp.gate_proj.weight has the shape [28,20] but config.json "
                                   "requires [29,20]"));
  std::filesystem::remove(folder_ / "model.safetensors");
  EXPECT_THAT(problem(), HasSubstr("contains neither model.safetensors nor"));
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_THAT(problem(), HasSubstr("does not contain config.json"));
}

TEST_F(CheckpointFolder, ShardsAreFoundThroughTheIndex) {
  const TinyCheckpoint tiny;
  tiny.write(folder_.path());
  const SafetensorsFile whole(folder_ / "model.safetensors");
  std::vector<std::pair<std::string, at::Tensor>> halves[2];
  nlohmann::json index;
  for (const auto& [name, tensor_entry] : whole.entries()) {
    const int half = halves[0].size() <= halves[1].size() ? 0 : 1;
    halves[half].emplace_back(name, whole.tensor(name));
    index["weight_map"][name] = half == 0 ? "one.safetensors" : "two.safetensors";
  }
  write_safetensors(folder_ / "one.safetensors", halves[0]);
  write_safetensors(folder_ / "two.safetensors", halves[1]);
  const ModelConfig config = read_model_config(folder_.path());
  const Transformer expected = load_transformer(folder_.path(), config, at::kFloat, at::kCPU);
  std::filesystem::remove(folder_ / "model.safetensors");
  const auto index_path = folder_ / "model.safetensors.index.json";
  write_file(index_path, index.dump());
  const Transformer sharded = load_transformer(folder_.path(), config, at::kFloat, at::kCPU);
  for (const auto& [name, tensor] : expected.weights()) {
    EXPECT_TRUE(at::equal(sharded.weight(name), tensor)) << name;
  }

  nlohmann::json wrong = index;
  wrong["weight_map"]["model.norm.weight"] = "../one.safetensors";
  write_file(index_path, wrong.dump());
  EXPECT_THAT(problem(), HasSubstr("outside its folder"));
  wrong["weight_map"]["model.norm.weight"] = "three.safetensors";
  write_file(index_path, wrong.dump());
  EXPECT_THAT(problem(), HasSubstr("three.safetensors: the index names this shard"));
  for (const char* other : {"", "..", "config.json", "o\nne.safetensors"}) {
    wrong["weight_map"]["model.norm.weight"] = other;
    write_file(index_path, wrong.dump());
    EXPECT_THAT(problem(), HasSubstr("for model.norm.weight, which is not a .safetensors file"));
  }
  wrong["weight_map"]["model.norm.weight"] = 3;
  write_file(index_path, wrong.dump());
  EXPECT_THAT(problem(), HasSubstr("does not name a file for model.norm.weight"));
  wrong = index;
  wrong["weight_map"].erase("model.norm.weight");
  write_file(index_path, wrong.dump());
  EXPECT_THAT(problem(), HasSubstr("index.json: does not contain the tensor model.norm.weight"));
  wrong["weight_map"]["model.norm.weight"] =
      index["weight_map"]["model.norm.weight"] == "one.safetensors" ? "two.safetensors"
                                                                    : "one.safetensors";
  write_file(index_path, wrong.dump());
  EXPECT_THAT(problem(), HasSubstr("although the index says so"));
  const std::string text = index.dump();
  const std::string norm = "\"model.norm.weight\":";
  write_file(index_path, std::string(text).insert(text.find(norm), norm + "\"one.safetensors\","));
  EXPECT_THAT(problem(), HasSubstr("names model.norm.weight twice"));
  write_file(index_path, "{}");
  EXPECT_THAT(problem(), HasSubstr("weight_map"));
  write_file(index_path, index.dump().substr(0, 100));
  EXPECT_THAT(problem(), HasSubstr("not a JSON object"));
  write_file(index_path, text);
  EXPECT_EQ(problem(), "");
  // The same tensor in two shards: whichever the index names, they may be of two checkpoints.
  halves[index["weight_map"]["model.norm.weight"] == "one.safetensors" ? 1 : 0].emplace_back(
      "model.norm.weight", whole.tensor("model.norm.weight"));
  write_safetensors(folder_ / "one.safetensors", halves[0]);
  write_safetensors(folder_ / "two.safetensors", halves[1]);
  EXPECT_THAT(problem(), HasSubstr("model.norm.weight, and so does"));
}

TEST_F(CheckpointFolder, WeightsThatTheConfigHasNoUseForAreRefused) {
  const TinyCheckpoint llama;
  TinyCheckpoint qwen2, qwen3, deeper, untied;
  qwen2.architecture = "Qwen2ForCausalLM";
  qwen3.architecture = "Qwen3ForCausalLM";
  deeper.layers = 3;
  untied.tied = false;
  for (const auto& [weights, name] :
       {std::pair(qwen2, "model.layers.0.self_attn.k_proj.bias"),
        std::pair(qwen3, "model.layers.0.self_attn.k_norm.weight"),
        std::pair(deeper, "model.layers.2.input_layernorm.weight"), std::pair(untied, "")}) {
    weights.write(folder_.path());
    EXPECT_EQ(problem(), "");
    write_file(folder_ / "config.json", llama.config_text());
    if (std::string(name).empty()) {
      EXPECT_EQ(problem(), "");  // a tied head is the embedding
    } else {
      EXPECT_THAT(problem(),
                  HasSubstr("model.safetensors: contains the tensor " + std::string(name) +
                            ", which a LlamaForCausalLM with this config.json does"));
    }
  }

  llama.write(folder_.path());
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  {
    const SafetensorsFile whole(folder_ / "model.safetensors");
    for (const auto& [name, entry] : whole.entries()) {
      tensors.emplace_back(name, whole.tensor(name).clone());
    }
  }
  tensors.emplace_back("model.layers.1.self_attn.rotary_emb.inv_freq", at::ones({3}));
  tensors.emplace_back("value_head.weight", at::ones({3}));  // no part of a language model
  write_safetensors(folder_ / "model.safetensors", tensors);
  EXPECT_EQ(problem(), "");
  tensors.emplace_back("lm_head.bias", at::ones({3}));
  write_safetensors(folder_ / "model.safetensors", tensors);
  EXPECT_THAT(problem(), HasSubstr("lm_head.bias"));

  // Also where the index does not tell of them.
  std::filesystem::remove(folder_ / "model.safetensors");
  qwen2.write_sharded(folder_.path(), 2);
  EXPECT_EQ(problem(), "");
  write_file(folder_ / "config.json", llama.config_text());
  const auto index_path = folder_ / "model.safetensors.index.json";
  auto index = nlohmann::json::parse(file_text(index_path));
  nlohmann::json kept;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!name.ends_with(".bias")) kept[name] = file;
  }
  index["weight_map"] = kept;
  write_file(index_path, index.dump());
  EXPECT_THAT(problem(), HasSubstr("proj.bias, which a LlamaForCausalLM"));
}

TEST_F(CheckpointFolder, DamagedIndexesGiveAModelOrOneClearError) {
  TinyCheckpoint tiny{.layers = 1};
  tiny.write_sharded(folder_.path(), 3);
  ASSERT_EQ(problem(), "");
  const auto index_path = folder_ / "model.safetensors.index.json";
  const std::string whole = file_text(index_path);
  std::mt19937 random(29);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = whole;
    const unsigned changes = 1 + random() % 3;
    for (unsigned change = 0; change < changes; ++change) {
      const char letters[] = "0123456789,:[]{}\"-./ n\xFF";
      damaged[random() % damaged.size()] = letters[random() % (sizeof letters - 1)];
    }
    if (round % 10 == 0) damaged.resize(random() % damaged.size());
    write_file(index_path, damaged);
    refused += problem().empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 800);
}

/// A gpt-oss with experts in MXFP4.
TinyCheckpoint packed_experts() {
  TinyCheckpoint tiny{
      .architecture = "GptOssForCausalLM",
      .hidden_size = 32,
      .more =
          R"({"intermediate_size": 32, "num_local_experts": 3, "num_experts_per_tok": 2, "quantization_config": {"quant_method": "mxfp4"}})"};
  return tiny;
}

TEST_F(CheckpointFolder, PackedExpertsThatDoNotFitAreRefused) {
  const TinyCheckpoint good = packed_experts();
  good.write(folder_.path());
  EXPECT_EQ(problem(), "");
  const std::string whole = file_text(folder_ / "model.safetensors");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bytes = whole;
    const std::size_t at = bytes.find(from);
    bytes.replace(at, from.size(), to);
    write_file(folder_ / "model.safetensors", bytes);
    return problem();
  };
  EXPECT_THAT(
      with("layers.1.mlp.experts.down_proj_scales", "layers.1.mlp.experts.down_proj_scalez"),
      HasSubstr("down_proj_scale"));
  EXPECT_THAT(
      with("layers.1.mlp.experts.down_proj_blocks", "layers.1.mlp.experts.down_proj_blockz"),
      HasSubstr("down_proj"));
  EXPECT_THAT(with("[3,64,1,16]", "[3,1,64,16]"),
              AllOf(HasSubstr("gate_up_proj_blocks"), HasSubstr("requires U8 [3,64,1,16]")));
  TinyCheckpoint odd = good;
  odd.hidden_size = 20;
  odd.write(folder_.path());
  EXPECT_THAT(problem(), HasSubstr("not whole blocks of MXFP4"));
}

TEST_F(CheckpointFolder, ShardsStayMapped) {
  TinyCheckpoint tiny;
  tiny.write_sharded(folder_.path(), 2);
  const Checkpoint checkpoint(folder_.path());
  const at::Tensor once = checkpoint.tensor("model.norm.weight", {tiny.hidden_size});
  const at::Tensor again = checkpoint.tensor("model.norm.weight", {tiny.hidden_size});
  EXPECT_EQ(once.data_ptr(), again.data_ptr());
  const Transformer model =
      load_transformer(folder_.path(), read_model_config(folder_.path()), at::kFloat, at::kCPU);
  EXPECT_EQ(model.weight("model.norm.weight").storage().nbytes(),
            static_cast<std::size_t>(tiny.hidden_size) * 4);
}

struct MappedFileTest : testing::Test {
  fs::path file(std::size_t bytes, const std::string& name = "weights") const {
    std::ofstream(folder_ / name, std::ios::binary) << std::string(bytes, 'w');
    return folder_ / name;
  }
  /// Runs `work` in a process that ends with a line where pages are lost: its wait status.
  int in_child(const std::function<void()>& work) const {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit core{0, 0};
      setrlimit(RLIMIT_CORE, &core);
      if (std::freopen((folder_ / "stderr").c_str(), "w", stderr) == nullptr) _exit(9);
      end_on_lost_pages("kvloupe-capture");
      work();
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }
  std::string said() const { return test::file_text(folder_ / "stderr"); }
  test::TemporaryFolder folder_;
};

/// Reads every page.
char sum(const MappedFile& map) {
  char sum = 0;
  for (std::uint64_t at = 0; at < map.size(); at += 512)
    sum = static_cast<char>(sum + std::to_integer<char>(map.data()[at]));
  return sum;
}

TEST_F(MappedFileTest, HoldsTheBytes) {
  const MappedFile map(file(10'000));
  EXPECT_EQ(map.size(), 10'000U);
  EXPECT_EQ(std::to_integer<char>(map.data()[9'999]), 'w');
  EXPECT_EQ(MappedFile(file(0, "empty")).size(), 0U);
  EXPECT_THROW(MappedFile(folder_ / "missing"), FileError);
  EXPECT_THROW(MappedFile(folder_.path()), FileError);
}

TEST_F(MappedFileTest, AFileThatShrinksGivesOneLineAndOne) {
  const fs::path path = file(1 << 20);
  const int status = in_child([&] {
    // Others that were mapped before, and one that is gone.
    const MappedFile other(file(5'000, "other"));
    { const MappedFile gone(file(5'000, "gone")); }
    const MappedFile map(path), last(file(5'000, "last"));
    const UnfinishedFile unfinished((folder_ / "trace.h5").string());
    fs::resize_file(path, 10'000);
    volatile char keep = sum(map);
    static_cast<void>(keep);
  });
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(said(), "kvloupe-capture: " + path.string() +
                        ": became shorter while it was read, or its disk fails; try again once "
                        "the file is whole\n");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << "an unfinished output is gone";
}

TEST_F(MappedFileTest, AnotherSignalOfThatKindIsNotHidden) {
  const int status = in_child([&] {
    const MappedFile map(file(5'000));
    raise(SIGBUS);
    while (true) raise(SIGBUS);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace kvloupe::test
