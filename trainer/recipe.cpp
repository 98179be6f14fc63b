#include "trainer/recipe.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <sstream>

#include "analysis/error.h"

namespace kvloupe::train {
namespace {

using Json = nlohmann::ordered_json;

/// Fields of one JSON object. An unknown field is an error, so that a misspelt field does not
/// silently become a default.
class Fields {
 public:
  Fields(const Json& object, std::string where, std::string name)
      : object_(object), where_(std::move(where)), name_(std::move(name)) {
    if (!object_.is_object()) fail("must be an object");
  }

  template <typename T>
  void number(const char* field, T& value, double least, double most) {
    known_.emplace_back(field);
    if (!object_.contains(field)) return;
    const Json& found = object_[field];
    const bool whole = std::is_integral_v<T>;
    if (!found.is_number() || (whole && !found.is_number_integer()) ||
        found.get<double>() < least || found.get<double>() > most) {
      std::ostringstream range;
      range << field << " must be " << (whole ? "a whole number" : "a number") << " from " << least
            << " to " << most;
      fail(range.str());
    }
    value = found.get<T>();
  }
  const Json* find(const char* field) {
    known_.emplace_back(field);
    return object_.contains(field) ? &object_[field] : nullptr;
  }
  void done() const {
    for (const auto& item : object_.items()) {
      if (std::find(known_.begin(), known_.end(), item.key()) == known_.end()) {
        fail("unknown field \"" + item.key() + "\"");
      }
    }
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw FileError(where_, name_ + ": " + problem);
  }

 private:
  const Json& object_;
  std::string where_;
  std::string name_;
  std::vector<std::string> known_;
};

Mix parse_mix(const Json& json, const std::string& where, const std::string& name) {
  Mix mix;
  Fields fields(json, where, name);
  fields.number("drill", mix.drill, 0, 1);
  fields.number("repetition", mix.repetition, 0, 1);
  fields.number("quiz", mix.quiz, 0, 1);
  fields.number("cipher", mix.cipher, 0, 1e6);
  fields.number("ledger", mix.ledger, 0, 1e6);
  fields.number("story", mix.story, 0, 1e6);
  fields.number("tale", mix.tale, 0, 1e6);
  fields.number("dice", mix.dice, 0, 1e6);
  fields.number("fact", mix.fact, 0, 1e6);
  fields.number("needle", mix.needle, 0, 1e6);
  fields.number("recall", mix.recall, 0, 1);
  fields.number("paragraph", mix.paragraph, 0, 1);
  fields.number("segment", mix.segment, 2, 1e4);
  fields.number("lexicon", mix.lexicon, 0, 1e6);
  fields.number("echo", mix.echo, 0, 1);
  fields.number("aside", mix.aside, 0, 1);
  fields.done();
  if (mix.drill + mix.repetition + mix.quiz > 1.0 + 1e-9) {
    fields.fail(
        "drill, repetition and quiz are shares of the sequences; their sum must not be above 1");
  }
  if (mix.cipher + mix.ledger + mix.story + mix.tale + mix.dice + mix.fact + mix.needle <= 0) {
    fields.fail("all shares are zero");
  }
  return mix;
}

std::vector<Decay> parse_decays(const Json& json, const std::string& where,
                                const std::string& name) {
  if (!json.is_array()) throw FileError(where, name + ": must be a list");
  std::vector<Decay> decays;
  for (const Json& item : json) {
    Decay decay;
    Fields fields(item, where, name);
    fields.number("begin", decay.begin, 0, 1e9);
    fields.number("steps", decay.steps, 1, 1e9);
    decay.until = decay.begin + decay.steps;
    fields.number("until", decay.until, 0, 1e9);
    fields.done();
    decays.push_back(decay);
  }
  return decays;
}

RoleWeights parse_weights(const Json& json, const std::string& where, const std::string& name) {
  RoleWeights weights;
  Fields fields(json, where, name);
  fields.number("text", weights.text, 0, 1e6);
  fields.number("quoted", weights.quoted, 0, 1e6);
  fields.number("answer", weights.answer, 0, 1e6);
  fields.done();
  return weights;
}

/// The fields of a cost's schedule, after those of its own; no others may follow.
void parse_cost(Fields& fields, TimedCost& cost) {
  fields.number("value", cost.value, 0, 100);
  fields.number("begin", cost.begin, 0, 1e9);
  fields.number("rise", cost.rise, 0, 1e9);
  fields.number("fall", cost.fall, 0, 1e9);
  fields.number("end", cost.end, 0, 1e9);
  fields.done();
  if (cost.end < cost.fall) fields.fail("end must not be before fall");
  if (cost.fall < cost.begin) fields.fail("fall must not be before begin");
}

}  // namespace

double TimedCost::at(std::int64_t step) const {
  if (step < begin || step >= end) return 0.0;
  const double risen =
      step - begin < rise ? static_cast<double>(step - begin + 1) / static_cast<double>(rise) : 1.0;
  const double left =
      step < fall ? 1.0 : static_cast<double>(end - step) / static_cast<double>(end - fall);
  return value * risen * left;
}

std::int64_t Recipe::total_steps() const {
  std::int64_t total = 0;
  for (const Stage& stage : stages) total += stage.steps;
  return total;
}

const Stage& Recipe::stage(std::int64_t step) const {
  for (const Stage& stage : stages) {
    if (step < stage.steps) return stage;
    step -= stage.steps;
  }
  return stages.back();
}

double Recipe::rate(std::int64_t step) const {
  double share = 1.0;
  if (step < optimizer.warmup_steps) {
    share = static_cast<double>(step + 1) / static_cast<double>(optimizer.warmup_steps);
  }
  for (const Decay& decay : optimizer.decays) {
    if (step < decay.begin || step >= decay.until) continue;
    const double done =
        static_cast<double>(step + 1 - decay.begin) / static_cast<double>(decay.steps);
    const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
    share *= optimizer.final_rate + (1.0 - optimizer.final_rate) * cosine;
  }
  return optimizer.rate * share;
}

Recipe parse_recipe(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw FileError(where, "is not valid JSON");
  Recipe recipe;
  recipe.text = text;
  Fields fields(json, where, "recipe");
  fields.number("seed", recipe.seed, 0, 1e15);
  fields.number("deviation", recipe.deviation, 1e-6, 1);
  if (const Json* model = fields.find("model")) {
    ModelShape& shape = recipe.model;
    Fields part(*model, where, "model");
    part.number("layers", shape.layers, 1, 64);
    part.number("hidden", shape.hidden, 8, 4096);
    part.number("heads", shape.heads, 1, 64);
    part.number("kv_heads", shape.kv_heads, 1, 64);
    part.number("head_dim", shape.head_dim, 2, 256);
    part.number("intermediate", shape.intermediate, 8, 16384);
    part.number("rope_theta", shape.rope_theta, 1, 1e9);
    part.number("max_positions", shape.max_positions, 64, 1 << 20);
    part.done();
    if (shape.heads % shape.kv_heads != 0) part.fail("heads must be a multiple of kv_heads");
    if (shape.head_dim % 2 != 0) part.fail("head_dim must be even");
  }
  if (const Json* optimizer = fields.find("optimizer")) {
    OptimizerSettings& settings = recipe.optimizer;
    Fields part(*optimizer, where, "optimizer");
    part.number("rate", settings.rate, 0, 1);
    part.number("final_rate", settings.final_rate, 0, 1);
    part.number("warmup_steps", settings.warmup_steps, 0, 1e9);
    if (const Json* decays = part.find("decays")) {
      settings.decays = parse_decays(*decays, where, "optimizer.decays");
    }
    part.number("beta1", settings.beta1, 0, 0.9999);
    part.number("beta2", settings.beta2, 0, 0.999999);
    part.number("epsilon", settings.epsilon, 1e-16, 1);
    part.number("gradient_clip", settings.gradient_clip, 1e-6, 1e6);
    part.done();
  }
  if (const Json* rest = fields.find("rest")) {
    Fields part(*rest, where, "rest");
    part.number("small_value", recipe.rest.small_value, 0, 100);
    parse_cost(part, recipe.rest.cost);
  }
  if (const Json* look_back = fields.find("look_back")) {
    Fields part(*look_back, where, "look_back");
    part.number("tokens", recipe.look_back.tokens, 1, 64);
    if (recipe.look_back.tokens > recipe.model.heads) {
      part.fail("tokens must not be more than the model's heads");
    }
    parse_cost(part, recipe.look_back.cost);
  }
  const Json* stages = fields.find("stages");
  if (stages == nullptr || !stages->is_array() || stages->empty()) {
    fields.fail("stages must be a list of at least one stage");
  }
  for (std::size_t i = 0; i < stages->size(); ++i) {
    const std::string name = "stages[" + std::to_string(i) + "]";
    Stage stage;
    Fields part((*stages)[i], where, name);
    part.number("steps", stage.steps, 1, 1e9);
    part.number("length", stage.length, 2, 1 << 16);
    part.number("sequences", stage.sequences, 1, 1 << 16);
    part.number("weight_decay", stage.weight_decay, 0, 10);
    part.number("orthogonal", stage.orthogonal, 0, 100);
    if (const Json* weights = part.find("loss_weights")) {
      stage.weights = parse_weights(*weights, where, name + ".loss_weights");
    }
    if (const Json* mix = part.find("mix")) stage.mix = parse_mix(*mix, where, name + ".mix");
    part.done();
    recipe.stages.push_back(stage);
  }
  fields.find("comment");
  fields.done();
  return recipe;
}

Recipe read_recipe(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path, "cannot be read; give the path of a recipe");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_recipe(text.str(), path);
}

std::string model_config_json(const ModelShape& shape, int vocabulary_size) {
  const Json json = {{"architectures", {"LlamaForCausalLM"}},
                     {"model_type", "llama"},
                     {"hidden_size", shape.hidden},
                     {"intermediate_size", shape.intermediate},
                     {"num_hidden_layers", shape.layers},
                     {"num_attention_heads", shape.heads},
                     {"num_key_value_heads", shape.kv_heads},
                     {"head_dim", shape.head_dim},
                     {"vocab_size", vocabulary_size},
                     {"max_position_embeddings", shape.max_positions},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", shape.rope_theta},
                     {"hidden_act", "silu"},
                     {"tie_word_embeddings", true},
                     {"attention_bias", false},
                     {"mlp_bias", false},
                     {"bos_token_id", Vocabulary::kBos},
                     {"eos_token_id", Vocabulary::kEos},
                     {"torch_dtype", "bfloat16"}};
  return json.dump(2) + "\n";
}

}  // namespace kvloupe::train
