#include "capture/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "analysis/error.h"
#include "tests/capture/tiny_checkpoint.h"

namespace kvloupe::test {
namespace {

using testing::HasSubstr;

nlohmann::json good_config() { return nlohmann::json::parse(TinyCheckpoint().config_text()); }

/// The message of the FileError this config gives; empty where it is accepted.
std::string problem_of(const std::string& text) {
  try {
    const ModelConfig config = parse_model_config(text, "m/config.json");
    EXPECT_GT(config.num_kv_heads, 0);
    EXPECT_EQ(config.num_heads % config.num_kv_heads, 0);
    EXPECT_EQ(config.head_dim % 2, 0);
    return "";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("m/config.json: "));
    return error.what();
  }
}

std::string problem_with(const char* field, nlohmann::json value) {
  nlohmann::json config = good_config();
  config[field] = std::move(value);
  return problem_of(config.dump());
}

TEST(ModelConfig, IsReadWithItsDefaults) {
  nlohmann::json json = good_config();
  json["eos_token_id"] = {2, 5};
  const ModelConfig config = parse_model_config(json.dump(), "c");
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.head_dim, 6);
  EXPECT_EQ(config.group_size(), 2);
  EXPECT_EQ(config.rope_theta, 500.0);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(config.text, json.dump());
  json["hidden_size"] = 32;
  for (const char* field : {"num_key_value_heads", "head_dim", "tie_word_embeddings", "rope_theta",
                            "rms_norm_eps", "hidden_act", "max_position_embeddings"}) {
    json.erase(field);
  }
  const ModelConfig plain = parse_model_config(json.dump(), "c");
  EXPECT_EQ(plain.num_kv_heads, 4);
  EXPECT_EQ(plain.head_dim, 8);
  EXPECT_EQ(plain.rope_theta, 10000.0);
  EXPECT_FALSE(plain.tied_head);
}

TEST(ModelConfig, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(problem_of(good_config().dump()), "");
  EXPECT_THAT(problem_with("architectures", {"BertModel"}), HasSubstr("BertModel"));
  EXPECT_THAT(problem_with("architectures", nullptr), HasSubstr("architectures"));
  EXPECT_THAT(problem_with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}),
              HasSubstr("yarn"));
  EXPECT_THAT(problem_with("rope_scaling", {{"type", "linear"}}), HasSubstr("linear"));
  EXPECT_EQ(problem_with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}), "");
  EXPECT_THAT(problem_with("hidden_act", "gelu"), HasSubstr("gelu"));
  EXPECT_THAT(problem_with("attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(problem_with("quantization_config", nlohmann::json::object()), HasSubstr("uantis"));
}

TEST(ModelConfig, ImpossibleSizesAreRefused) {
  for (const char* field : {"num_hidden_layers", "num_attention_heads", "hidden_size",
                            "intermediate_size", "vocab_size", "head_dim"}) {
    for (const nlohmann::json& value :
         {nlohmann::json(0), nlohmann::json(-4), nlohmann::json(1e30), nlohmann::json(4.5),
          nlohmann::json("8"), nlohmann::json(18446744073709551615U)}) {
      EXPECT_THAT(problem_with(field, value), HasSubstr(field)) << value;
    }
  }
  EXPECT_THAT(problem_with("num_key_value_heads", 3), HasSubstr("no multiple"));
  EXPECT_THAT(problem_with("head_dim", 7), HasSubstr("odd"));
  EXPECT_THAT(problem_with("rope_theta", -1.0), HasSubstr("rope_theta"));
  EXPECT_THAT(problem_with("eos_token_id", "two"), HasSubstr("eos_token_id"));
  for (const char* field : {"num_hidden_layers", "hidden_size", "vocab_size"}) {
    nlohmann::json config = good_config();
    config.erase(field);
    EXPECT_THAT(problem_of(config.dump()), HasSubstr(std::string(field) + " is missing"));
  }
  EXPECT_THAT(problem_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(problem_of("[1]"), HasSubstr("JSON object"));
}

TEST(ModelConfig, DamagedTextGivesAConfigOrOneClearError) {
  const std::string whole = good_config().dump();
  std::mt19937 random(23);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (int change = 0; change < 3; ++change) {
      const char letters[] = "0123456789-e.,:[]{}\"an\xFF";
      damaged[random() % damaged.size()] = letters[random() % (sizeof letters - 1)];
    }
    if (round % 10 == 0) damaged.resize(random() % damaged.size());
    refused += problem_of(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace kvloupe::test
