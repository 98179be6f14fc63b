#include "capture/model/model_config.h"
#include "capture/model/architecture_catalog.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

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
    EXPECT_THAT(error.what(), StartsWith("m/config.json: "));
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
  EXPECT_EQ(problem_with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}), "");
  EXPECT_THAT(problem_with("hidden_act", "gelu"), HasSubstr("gelu"));
  EXPECT_THAT(problem_with("attention_bias", 1), HasSubstr("attention_bias must be"));
  EXPECT_THAT(problem_with("layer_types", {"sliding_attention", "full_attention"}),
              HasSubstr("layer_types"));
  EXPECT_EQ(problem_with("layer_types", {"full_attention", "full_attention"}), "");
  EXPECT_THAT(problem_with("quantization_config", nlohmann::json::object()), HasSubstr("uantis"));
}

TEST(ModelConfig, AnUnknownFamilyIsToldTheKnownOnes) {
  EXPECT_THAT(
      problem_with("architectures", {"GemmaForCausalLM"}),
      HasSubstr("GemmaForCausalLM is not among those that kvloupe-capture runs (Llama, Mistral, "
                "Qwen2, Qwen3, Phi3, Granite, SmolLM3, Olmo2, Gemma2, Gemma3, Mixtral, Qwen3Moe, "
                "GptOss); the Python package captures most others: python -m kvloupe capture"));
}

const nlohmann::json kLlama3{{"rope_type", "llama3"},
                             {"factor", 32.0},
                             {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0},
                             {"original_max_position_embeddings", 8192}};

TEST(ModelConfig, RotaryScalingIsReadInEverySpelling) {
  const auto read = [](const char* field, const nlohmann::json& value) {
    nlohmann::json config = good_config();
    config[field] = value;
    return parse_model_config(config.dump(), "c");
  };
  RopeScaling llama3;
  llama3.type = RopeScaling::Type::llama3;
  llama3.factor = 32.0;
  llama3.original_context = 8192.0;
  EXPECT_EQ(read("rope_scaling", kLlama3).rope_scaling, llama3);
  nlohmann::json older = kLlama3;
  older.erase("rope_type");
  older["type"] = "llama3";
  EXPECT_EQ(read("rope_scaling", older).rope_scaling, llama3);
  nlohmann::json newer = kLlama3;
  newer["rope_theta"] = 123.0;
  EXPECT_EQ(read("rope_parameters", newer).rope_scaling, llama3);
  EXPECT_EQ(read("rope_parameters", newer).rope_theta, 123.0);
  RopeScaling linear;
  linear.type = RopeScaling::Type::linear;
  linear.factor = 2.0;
  EXPECT_EQ(read("rope_scaling", {{"type", "linear"}, {"factor", 2}}).rope_scaling, linear);
  RopeScaling yarn;
  yarn.type = RopeScaling::Type::yarn;
  yarn.factor = 4.0;
  yarn.original_context = 32768.0;
  yarn.attention_factor = 0.1 * std::log(4.0) + 1.0;
  const nlohmann::json qwen{
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(read("rope_scaling", qwen).rope_scaling, yarn);
  // Missing values follow from the number of positions of the model: here 128.
  yarn.original_context = 128.0;
  EXPECT_EQ(read("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}).rope_scaling, yarn);
  yarn.original_context = 32.0;
  EXPECT_EQ(
      read("rope_parameters",
           {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 32}})
          .rope_scaling,
      yarn);
  for (const nlohmann::json& none :
       {nlohmann::json(), nlohmann::json{{"type", "default"}}, nlohmann::json::object()}) {
    EXPECT_EQ(read("rope_scaling", none).rope_scaling, RopeScaling());
  }
}

TEST(ModelConfig, OtherRotaryScalingIsRefusedByName) {
  for (const char* type : {"dynamic", "longrope", "su", "mrope", "ntk"}) {
    EXPECT_THAT(problem_with("rope_scaling", {{"rope_type", type}, {"factor", 4.0}}),
                HasSubstr(std::string("rope_scaling: the type \"") + type + "\""));
    EXPECT_THAT(problem_with("rope_parameters", {{"type", type}}), HasSubstr(type));
  }
  for (const char* field :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    nlohmann::json scaling = kLlama3;
    scaling.erase(field);
    EXPECT_THAT(problem_with("rope_scaling", scaling), HasSubstr(field));
    for (const nlohmann::json& value :
         {nlohmann::json(0), nlohmann::json(-1), nlohmann::json("8")}) {
      scaling[field] = value;
      EXPECT_THAT(problem_with("rope_scaling", scaling), HasSubstr(field)) << value;
    }
  }
  nlohmann::json crossed = kLlama3;
  crossed["high_freq_factor"] = 1.0;
  EXPECT_THAT(problem_with("rope_scaling", crossed), HasSubstr("greater than low_freq_factor"));
  EXPECT_THAT(problem_with("rope_scaling", {{"type", "linear"}}), HasSubstr("factor"));
  for (const char* field :
       {"factor", "beta_fast", "attention_factor", "mscale", "original_max_position_embeddings"}) {
    EXPECT_THAT(problem_with("rope_scaling", {{"type", "yarn"}, {field, -1.0}}), HasSubstr(field));
  }
  EXPECT_THAT(problem_with("rope_scaling", {{"type", "yarn"}, {"truncate", 1}}),
              HasSubstr("truncate must be"));
  EXPECT_THAT(problem_with("rope_scaling", {{"type", "yarn"}, {"beta_fast", 0.5}}),
              HasSubstr("at least beta_slow"));
  EXPECT_THAT(problem_with("rope_parameters", {{"type", "yarn"}, {"rope_theta", 1.0}}),
              HasSubstr("rope_theta greater than 1"));
  EXPECT_THAT(problem_with("rope_scaling", {{"factor", 2.0}}), HasSubstr("rope_type is missing"));
  EXPECT_THAT(problem_with("rope_scaling", "linear"), HasSubstr("rope_scaling: must be an object"));
  EXPECT_THAT(problem_with("rope_scaling", {{"rope_type", 3}}), HasSubstr("must be a text"));
  EXPECT_THAT(problem_with("rope_scaling", {{"rope_type", "a\nb"}}), Not(HasSubstr("\n")));
  EXPECT_THAT(problem_with("rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}),
              HasSubstr("full_attention"));
  EXPECT_THAT(problem_with("rope_parameters", {{"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor"));
  nlohmann::json both = good_config();
  both["rope_scaling"] = kLlama3;
  both["rope_parameters"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_THAT(problem_of(both.dump()), HasSubstr("contradict each other"));
}

TEST(ModelConfig, WhatAFieldsAbsenceMeansIsTheFamilysOwn) {
  const auto config = [](const char* architecture, const char* absent, const char* more) {
    TinyCheckpoint tiny{.architecture = architecture, .more = more};
    nlohmann::json json = nlohmann::json::parse(tiny.config_text());
    json.erase(absent);
    return json.dump();
  };
  const auto read = [&](const char* architecture, const char* absent, const char* more) {
    return parse_model_config(config(architecture, absent, more), "c");
  };
  constexpr const char* kMistral = "MistralForCausalLM";
  constexpr const char* kQwen2 = "Qwen2ForCausalLM";
  constexpr const char* kQwen3 = "Qwen3ForCausalLM";
  // A window that is absent is the class's own; null is none.
  EXPECT_EQ(read(kMistral, "", "{}").sliding_window, 4096);
  EXPECT_EQ(read(kMistral, "", R"({"sliding_window": null})").sliding_window, 0);
  EXPECT_EQ(read(kMistral, "", R"({"sliding_window": 7})").sliding_window, 7);
  EXPECT_THAT(problem_of(config(kMistral, "", R"({"sliding_window": -1})")),
              HasSubstr("sliding_window must be"));
  EXPECT_EQ(read(kMistral, "", R"({"head_dim": null, "hidden_size": 32})").head_dim, 8);
  // Biases that no field mentions.
  EXPECT_TRUE(read(kQwen2, "", "{}").qkv_bias);
  EXPECT_FALSE(read(kQwen2, "", "{}").output_bias);
  EXPECT_FALSE(read(kQwen3, "", "{}").qkv_bias);
  EXPECT_FALSE(read("LlamaForCausalLM", "", "{}").qkv_bias);
  EXPECT_THAT(problem_of(config(kMistral, "", R"({"attention_bias": true})")),  // it has none
              HasSubstr("attention_bias true may change"));
  EXPECT_EQ(read(kQwen3, "", "{}").query_key_norm, QueryKeyNorm::heads);
  EXPECT_EQ(read(kQwen2, "", "{}").query_key_norm, QueryKeyNorm::none);
  EXPECT_EQ(read(kQwen3, "head_dim", "{}").head_dim, 128);
  for (const char* family : {kMistral, kQwen2, kQwen3}) {
    EXPECT_THAT(problem_of(config(family, "num_key_value_heads", "{}")),
                HasSubstr("num_key_value_heads is missing"));
    EXPECT_EQ(read(family, "", R"({"num_key_value_heads": null})").num_kv_heads, 4);
  }
  // Qwen's window, where it concerns a layer.
  for (const char* family : {kQwen2, kQwen3}) {
    constexpr const char* kOff = R"({"use_sliding_window": false, "sliding_window": 16})";
    constexpr const char* kNone = R"({"use_sliding_window": true, "sliding_window": null})";
    constexpr const char* kNoLayer =
        R"({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 2})";
    for (const char* more : {kOff, kNone, kNoLayer}) {
      EXPECT_EQ(read(family, "", more).sliding_window, 0) << more;
    }
    for (const char* more :
         {R"({"use_sliding_window": true, "sliding_window": 16})",
          R"({"use_sliding_window": true})",  // the class's own window, 4096
          R"({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 0})",
          R"({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 1})"}) {
      EXPECT_THAT(problem_of(config(family, "", more)), HasSubstr("use_sliding_window")) << more;
    }
  }
}

/// A tiny config of a family with more fields.
std::string config_of(const char* architecture, const nlohmann::json& more) {
  TinyCheckpoint tiny{
      .architecture = architecture + std::string("ForCausalLM"), .layers = 6, .more = more.dump()};
  return tiny.config_text();
}

TEST(ModelConfig, LayersHaveTheirOwnWindowsAndRotations) {
  const auto read = [](const char* architecture, const nlohmann::json& more) {
    return parse_model_config(config_of(architecture, more), "c");
  };
  const auto windows = [](const ModelConfig& config) {
    std::vector<std::int64_t> all;
    for (const LayerConfig& layer : config.layers) all.push_back(layer.sliding_window);
    return all;
  };
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(windows(read("Gemma2", {{"sliding_window", 8}})), (List{8, 0, 8, 0, 8, 0}));
  EXPECT_EQ(windows(read("Gemma2", nlohmann::json::object())), (List{4096, 0, 4096, 0, 4096, 0}));
  EXPECT_EQ(windows(read("Gemma2", {{"sliding_window", nullptr}})), List(6, 0));
  const ModelConfig gemma = read("Gemma3", {{"sliding_window", 8}, {"rope_local_base_freq", 50.0}});
  EXPECT_EQ(windows(gemma), (List{8, 8, 8, 8, 8, 0}));
  EXPECT_EQ(gemma.sliding_window, 0);
  EXPECT_EQ(gemma.narrowest_window(), 8);
  EXPECT_EQ(gemma.rope_theta, 500.0);
  EXPECT_EQ(gemma.layer(5).rope_theta, 500.0);
  EXPECT_EQ(gemma.layer(4).rope_theta, 50.0);
  EXPECT_EQ(windows(read("Gemma3", {{"sliding_window", 8}, {"sliding_window_pattern", 3}})),
            (List{8, 8, 0, 8, 8, 0}));
  // Newer configs keep the rotations by type of layer.
  const ModelConfig newer =
      read("Gemma3",
           {{"rope_parameters",
             {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 700.0}}},
              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 60.0}}}}}});
  EXPECT_EQ(newer.layer(5).rope_scaling.factor, 8.0);
  EXPECT_EQ(newer.layer(5).rope_theta, 700.0);
  EXPECT_EQ(newer.layer(0).rope_theta, 60.0);
  EXPECT_EQ(newer.layer(0).rope_scaling, RopeScaling());
  const ModelConfig smol = read("SmolLM3", nlohmann::json::object());
  EXPECT_TRUE(smol.layer(2).rotates);
  EXPECT_FALSE(smol.layer(3).rotates);
  const ModelConfig oss = read("GptOss", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  EXPECT_EQ(windows(oss), (List{128, 0, 128, 0, 128, 0}));
  EXPECT_EQ(oss.rope_scaling.factor, 32.0);  // the family's own, where the config has none
  EXPECT_TRUE(oss.qkv_bias);
  const ModelConfig moe = read("Qwen3Moe", {{"num_experts", 4},
                                            {"num_experts_per_tok", 2},
                                            {"moe_intermediate_size", 8},
                                            {"decoder_sparse_step", 2},
                                            {"mlp_only_layers", {3}}});
  std::vector<bool> experts;
  for (const LayerConfig& layer : moe.layers) experts.push_back(layer.experts);
  EXPECT_EQ(experts, (std::vector<bool>{false, true, false, false, false, true}));
}

TEST(ModelConfig, FieldsThatNobodyReadsAreRefusedUnlessTheyAreHarmless) {
  const nlohmann::json harmless{{"use_cache", false},
                                {"use_mrope", false},
                                {"dtype", "bfloat16"},
                                {"is_causal", true},
                                {"attention_dropout", 0.5},
                                {"logits_scaling", 1},
                                {"quantization", nullptr},
                                {"id2label", {{"0", "a"}}},
                                {"pruned_heads", nlohmann::json::object()}};
  struct Changing {
    const char* field;
    nlohmann::json value;
    const char* read_by;  // the family
  };
  const Changing changing[] = {{"is_causal", false, ""},
                               {"use_bidirectional_attention", true, ""},
                               {"attn_logit_softcapping", 50.0, "Gemma2"},
                               {"residual_multiplier", 0.5, "Granite"},
                               {"dual_chunk_attention_config", {{"chunk_size", 8}}, ""},
                               {"rope_parameters", {{"mrope_section", {1, 2}}}, ""},
                               {"causal_mask", false, ""},
                               {"invented", true, ""}};
  for (const Family& family : families()) {
    const std::string name(family.name.substr(0, family.name.find("ForCausalLM")));
    SCOPED_TRACE(name);
    nlohmann::json more = harmless;
    if (name == "Qwen3Moe") more.update({{"num_experts", 2}, {"moe_intermediate_size", 8}});
    if (name == "Mixtral" || name == "GptOss") more["num_local_experts"] = 2;
    if (more.size() > harmless.size()) more["num_experts_per_tok"] = 1;
    EXPECT_EQ(problem_of(config_of(name.c_str(), more)), "");
    for (const auto& [field, value, read_by] : changing) {
      nlohmann::json changed = more;
      changed[field] = value;
      const std::string problem = problem_of(config_of(name.c_str(), changed));
      if (name == read_by) {
        EXPECT_EQ(problem, "");
      } else {
        EXPECT_THAT(problem,
                    HasSubstr(std::string(field) == "rope_parameters" ? "mrope_section" : field));
      }
    }
  }
}

TEST(ModelConfig, WhatAFamilyDoesNotHaveIsRefusedByName) {
  const auto problem = [](const char* architecture, const nlohmann::json& more) {
    return problem_of(config_of(architecture, more));
  };
  EXPECT_THAT(problem("Phi3", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
              HasSubstr("rope_scaling is not supported in this family"));
  EXPECT_THAT(problem("Phi3", {{"partial_rotary_factor", 0.75}}), HasSubstr("partial_rotary"));
  EXPECT_THAT(problem("Gemma2", {{"layer_types", {"sliding_attention"}}}),
              HasSubstr("layer_types must be a list of 6 texts"));
  EXPECT_THAT(problem("Gemma2", {{"layer_types", std::vector<std::string>(6, "chunked")}}),
              HasSubstr("chunked"));
  EXPECT_THAT(problem("Gemma2", {{"hidden_activation", "gelu"}}), HasSubstr("hidden_activation"));
  EXPECT_THAT(problem("Gemma2", {{"final_logit_softcapping", -1.0}}),
              HasSubstr("final_logit_softcapping must be"));
  EXPECT_THAT(problem("Gemma3", {{"attn_logit_softcapping", 50.0}}),
              HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(problem("Gemma3", {{"use_bidirectional_attention", true}}),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(problem("SmolLM3", {{"no_rope_layers", {1, 0}}}), HasSubstr("no_rope_layers"));
  EXPECT_THAT(problem("SmolLM3", {{"no_rope_layers", {1, 0, 2, 1, 1, 1}}}),
              HasSubstr("numbers 0 and 1"));
  EXPECT_THAT(problem("SmolLM3", {{"use_sliding_window", true}, {"sliding_window", 9}}),
              HasSubstr("use_sliding_window"));
  EXPECT_THAT(problem("Mixtral", nlohmann::json::object()),
              HasSubstr("num_local_experts is missing"));
  EXPECT_THAT(problem("Mixtral", {{"num_local_experts", 2}, {"num_experts_per_tok", 3}}),
              HasSubstr("num_experts_per_tok is greater"));
  EXPECT_THAT(problem("Mixtral", {{"num_hidden_layers", 4096},
                                  {"num_local_experts", 4096},
                                  {"num_experts_per_tok", 3}}),
              HasSubstr("more than any model has"));
  EXPECT_THAT(problem("Granite", {{"residual_multiplier", 0}}), HasSubstr("residual_multiplier"));
  const nlohmann::json packed{{"num_local_experts", 2},
                              {"num_experts_per_tok", 1},
                              {"quantization_config", {{"quant_method", "mxfp4"}}}};
  EXPECT_EQ(problem("GptOss", packed), "");
  EXPECT_THAT(problem("Mixtral", packed), HasSubstr("quantised"));
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
  EXPECT_THAT(problem_with("num_key_value_heads", 3), HasSubstr("not a multiple"));
  EXPECT_THAT(problem_with("head_dim", 7), HasSubstr("odd"));
  EXPECT_THAT(problem_with("rope_theta", -1.0), HasSubstr("rope_theta"));
  EXPECT_THAT(problem_with("eos_token_id", "two"), HasSubstr("eos_token_id"));
  for (const char* field : {"num_hidden_layers", "hidden_size", "vocab_size"}) {
    nlohmann::json config = good_config();
    config.erase(field);
    EXPECT_THAT(problem_of(config.dump()), HasSubstr(std::string(field) + " is missing"));
  }
  EXPECT_THAT(problem_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem_of("[1]"), HasSubstr("JSON object"));
}

TEST(ModelConfig, DeepNestingEndsInAnError) {
  const auto deep = [](std::size_t depth) {
    const std::string text = good_config().dump();
    return text.substr(0, text.size() - 1) + R"(,"task_specific_params":{"x":)" +
           std::string(depth, '[') + std::string(depth, ']') + "}}";
  };
  EXPECT_EQ(problem_of(deep(10)), "");
  EXPECT_THAT(problem_of(deep(1000000)), HasSubstr("nested too deep"));
}

TEST(ModelConfig, TextsFromTheFileFitAnErrorsLine) {
  const std::string text = "a\nb\x1B[2J" + std::string(100000, 'x');
  for (const std::string& error :
       {problem_with("architectures", {text}), problem_with("hidden_act", text)}) {
    EXPECT_THAT(error, HasSubstr("a?b?[2Jx"));
    EXPECT_LT(error.size(), 300U);
  }
}

TEST(ModelConfig, DamagedTextGivesAConfigOrOneClearError) {
  TinyCheckpoint windowed{
      .architecture = "MistralForCausalLM",
      .more = R"({"sliding_window": 16, "layer_types": ["sliding_attention"]})"};
  TinyCheckpoint scaled{
      .architecture = "Qwen3ForCausalLM",
      .more = nlohmann::json{{"rope_scaling", kLlama3}, {"max_window_layers", 2}}.dump()};
  const nlohmann::json experts{{"num_local_experts", 4}, {"num_experts_per_tok", 2}};
  const std::string whole[] = {
      good_config().dump(),
      windowed.config_text(),
      scaled.config_text(),
      config_of("Gemma3", {{"rope_parameters", {{"full_attention", kLlama3}}}}),
      config_of("SmolLM3", {{"no_rope_layers", {1, 0, 1, 1, 0, 1}}}),
      config_of("GptOss", experts)};
  for (const std::string& text : whole) ASSERT_EQ(problem_of(text), "");
  std::mt19937 random(23);
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string damaged = whole[round % 6];
    for (int change = 0; change < 3; ++change) {
      const char letters[] = "0123456789-e.,:[]{}\"an\xFF";
      damaged[random() % damaged.size()] = letters[random() % (sizeof letters - 1)];
    }
    if (round % 10 == 0) damaged.resize(random() % damaged.size());
    refused += problem_of(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace kvloupe::test
