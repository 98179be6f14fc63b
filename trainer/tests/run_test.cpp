#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "analysis/error.h"
#include "capture/model/load_transformer.h"
#include "tests/capture/whole_model.h"
#include "tests/support/temporary_folder.h"
#include "trainer/loss.h"
#include "trainer/measure.h"
#include "trainer/trainer.h"

namespace kvloupe::train {
namespace {

using kvloupe::test::TemporaryFolder;

constexpr const char* kTiny = R"({
  "seed": 5,
  "model": {"layers": 2, "hidden": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "intermediate": 48},
  "optimizer": {"rate": 0.01, "warmup_steps": 5, "decays": [{"begin": 10, "steps": 40, "until": 12}, {"begin": 15, "steps": 15}]},
  "stages": [
    {"steps": 20, "length": 32, "sequences": 4, "mix": {"drill": 0.5}},
    {"steps": 10, "length": 48, "sequences": 3, "orthogonal": 0.2, "loss_weights": {"answer": 3}}
  ]})";

TrainOptions options_for(const std::filesystem::path& folder) {
  TrainOptions options;
  options.folder = folder.string();
  options.mixed_precision = false;
  options.log_every = 5;
  options.measure_every = 0;
  return options;
}

/// A run's log.csv.
struct LogTable {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows;

  double number(std::size_t row, const std::string& name) const {
    const auto column =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    return std::stod(rows.at(row).at(column));
  }
};

LogTable read_log(const std::filesystem::path& path) {
  std::ifstream file(path);
  LogTable log;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::vector<std::string> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    (log.names.empty() ? log.names : log.rows.emplace_back()) = row;
  }
  return log;
}

TEST(Recipe, HasWarmUpConstantAndCosines) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  EXPECT_EQ(recipe.total_steps(), 30);
  EXPECT_DOUBLE_EQ(recipe.rate(0), 0.01 / 5);
  EXPECT_DOUBLE_EQ(recipe.rate(7), 0.01);
  EXPECT_NEAR(recipe.rate(11), 0.01 * (0.05 + 0.95 * 0.5 * (1 + std::cos(3.14159265 / 20))), 1e-9);
  EXPECT_DOUBLE_EQ(recipe.rate(13), 0.01);
  EXPECT_NEAR(recipe.rate(29), 0.01 * 0.05, 1e-12);
  EXPECT_EQ(recipe.stage(19).length, 32);
  EXPECT_EQ(recipe.stage(20).length, 48);
  EXPECT_EQ(recipe.stage(20).weights.answer, 3.0);
}

TEST(Recipe, RestRisesStaysAndFallsToNothing) {
  const Recipe recipe = parse_recipe(
      R"({"rest": {"value": 0.2, "rise": 10, "fall": 50, "end": 70}, "stages": [{"steps": 100}]})",
      "rest");
  EXPECT_DOUBLE_EQ(recipe.rest.cost.at(0), 0.02);
  EXPECT_DOUBLE_EQ(recipe.rest.cost.at(9), 0.2);
  EXPECT_DOUBLE_EQ(recipe.rest.cost.at(49), 0.2);
  EXPECT_DOUBLE_EQ(recipe.rest.cost.at(60), 0.1);
  EXPECT_GT(recipe.rest.cost.at(69), 0.0);
  EXPECT_EQ(recipe.rest.cost.at(70), 0.0);
  EXPECT_EQ(recipe.rest.cost.at(99), 0.0);
  // A recipe without the field has no such cost at any step.
  EXPECT_EQ(parse_recipe(kTiny, "tiny").rest.cost.at(0), 0.0);
  const TimedCost later{.value = 0.2, .begin = 30, .rise = 10, .fall = 50, .end = 70};
  EXPECT_EQ(later.at(29), 0.0);
  EXPECT_DOUBLE_EQ(later.at(30), 0.02);
  EXPECT_DOUBLE_EQ(later.at(39), 0.2);
  EXPECT_DOUBLE_EQ(later.at(49), 0.2);
  EXPECT_DOUBLE_EQ(later.at(60), 0.1);
}

TEST(Recipe, NamesWhatIsWrong) {
  const auto problem = [](const std::string& text) {
    try {
      parse_recipe(text, "r.json");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(problem("{"), "r.json: is not valid JSON");
  EXPECT_EQ(problem(R"({"stages": [{"steps": 1, "lenght": 5}]})"),
            "r.json: stages[0]: unknown field \"lenght\"");
  EXPECT_EQ(problem(R"({"stages": [{"steps": 0}]})"),
            "r.json: stages[0]: steps must be a whole number from 1 to 1e+09");
  EXPECT_EQ(problem(R"({"model": {"heads": 3, "kv_heads": 2}, "stages": [{"steps": 1}]})"),
            "r.json: model: heads must be a multiple of kv_heads");
  EXPECT_EQ(problem(R"({"rest": {"value": 1, "fall": 9, "end": 5}, "stages": [{"steps": 1}]})"),
            "r.json: rest: end must not be before fall");
  EXPECT_EQ(problem(R"({"rest": {"begin": 9, "fall": 5, "end": 9}, "stages": [{"steps": 1}]})"),
            "r.json: rest: fall must not be before begin");
  EXPECT_EQ(problem(R"({"rest": {"cost": 1}, "stages": [{"steps": 1}]})"),
            "r.json: rest: unknown field \"cost\"");
  EXPECT_EQ(
      problem(R"({"stages": [{"steps": 1, "mix": {"drill": 0.5, "quiz": 0.5}}]})"),
      "r.json: stages[0].mix: drill, repetition and quiz are shares of the sequences; their sum "
      "must not be above 1");
  EXPECT_EQ(problem(R"({"look_back": {"tokens": 9}, "stages": [{"steps": 1}]})"),
            "r.json: look_back: tokens must not be more than the model's heads");
  EXPECT_EQ(
      problem(R"({"look_back": {"value": 1, "fall": 9, "end": 5}, "stages": [{"steps": 1}]})"),
      "r.json: look_back: end must not be before fall");
}

/// The gradient of the cost alone, for every weight: the trainer's tiles against whole attention
/// matrices, the mean of 1 − a₀ written as in the recipe's documentation.
TEST(StepLoss, GradientOfTheRestEqualsThatOfTheFormula) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  TrainingState state = initial_state(recipe, at::kCPU);
  state.parameters.mul_(4.0);  // first weights are small: attention would be nearly even
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  const std::vector<TokenId> prompt = corpus.needle_prompt(0, 90, 1).ids;
  at::Tensor ids = at::empty({1, static_cast<std::int64_t>(prompt.size())}, at::kLong);
  std::copy(prompt.begin(), prompt.end(), ids.data_ptr<std::int64_t>());
  const Batch batch{ids, at::zeros_like(ids)};
  const Transformer model(state.config, state.weights());

  const auto gradient_of = [&](const at::Tensor& loss) {
    state.gradients.zero_();
    loss.backward();
    return state.gradients.clone();
  };
  const StepLoss with = step_loss(model, batch, {}, {.rest = 0.7}, false);
  const StepLoss without = step_loss(model, batch, {}, {}, false);
  const at::Tensor fast = gradient_of(with.loss) - gradient_of(without.loss);

  at::Tensor looking = at::zeros({}, at::kDouble);
  run_whole(model, ids, [&](int, const StateTensors& states) {
    const at::Tensor attention = causal_attention(states, model.attention_scale());
    for (std::int64_t head = 0; head < attention.size(1); ++head) {
      for (std::int64_t query = 8; query < attention.size(2); ++query) {
        looking = looking + (1.0 - attention[0][head][query][0].to(at::kDouble));
      }
    }
  });
  const double count = static_cast<double>(2 * 2 * (ids.size(1) - 8));
  EXPECT_NEAR(with.resting.item<double>(), 1.0 - looking.item<double>() / count, 1e-6);
  EXPECT_NEAR(with.loss.item<double>() - without.loss.item<double>(),
              0.7 * looking.item<double>() / count, 1e-5);
  const at::Tensor exact = gradient_of(0.7 * looking / count);
  ASSERT_GT(exact.norm().item<double>(), 1e-3);
  EXPECT_LT((fast - exact).norm().item<double>(), 1e-3 * exact.norm().item<double>());
}

/// The same for the value of token 0: a₀ |v₀|² / mean |v|², written out in double, with a gradient
/// for v₀ alone.
TEST(StepLoss, GradientOfTheRestingValueEqualsThatOfTheFormula) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  TrainingState state = initial_state(recipe, at::kCPU);
  state.parameters.mul_(4.0);
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  const std::vector<TokenId> prompt = corpus.needle_prompt(0, 90, 1).ids;
  at::Tensor ids = at::empty({1, static_cast<std::int64_t>(prompt.size())}, at::kLong);
  std::copy(prompt.begin(), prompt.end(), ids.data_ptr<std::int64_t>());
  const Batch batch{ids, at::zeros_like(ids)};
  const Transformer model(state.config, state.weights());

  const auto gradient_of = [&](const at::Tensor& loss) {
    state.gradients.zero_();
    loss.backward();
    return state.gradients.clone();
  };
  const StepLoss with = step_loss(model, batch, {}, {.rest = 0.7, .small_value = 2.5}, false);
  const StepLoss without = step_loss(model, batch, {}, {.rest = 0.7}, false);
  const at::Tensor fast = gradient_of(with.loss) - gradient_of(without.loss);

  at::Tensor value = at::zeros({}, at::kDouble);
  run_whole(model, ids, [&](int, const StateTensors& states) {
    const at::Tensor attention = causal_attention(states, model.attention_scale());
    const std::int64_t length = states.value.size(2);
    const std::int64_t shared = attention.size(1) / states.value.size(1);
    for (std::int64_t head = 0; head < states.value.size(1); ++head) {
      double resting = 0.0;
      for (std::int64_t sharing = 0; sharing < shared; ++sharing) {
        for (std::int64_t query = 8; query < length; ++query) {
          resting += attention[0][head * shared + sharing][query][0].item<double>();
        }
      }
      resting /= static_cast<double>(shared * (length - 8));
      double mean = 0.0;
      for (std::int64_t token = 0; token < length; ++token) {
        mean += states.value[0][head][token].to(at::kDouble).square().sum().item<double>();
      }
      mean /= static_cast<double>(length);
      value = value + resting * states.value[0][head][0].to(at::kDouble).square().sum() / mean;
    }
  });
  const double heads = 2.0 * static_cast<double>(state.config.num_kv_heads);
  EXPECT_NEAR(with.value.item<double>(), value.item<double>() / heads, 1e-6);
  const at::Tensor exact = gradient_of(0.7 * 2.5 * value / heads);
  ASSERT_GT(exact.norm().item<double>(), 1e-4);
  EXPECT_LT((fast - exact).norm().item<double>(), 1e-3 * exact.norm().item<double>());
}

/// The same for the cost of heads that do not look back: −log a, one query head and query at a
/// time.
TEST(StepLoss, GradientOfLookingBackEqualsThatOfTheFormula) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  TrainingState state = initial_state(recipe, at::kCPU);
  state.parameters.mul_(4.0);
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  const std::vector<TokenId> prompt = corpus.needle_prompt(0, 90, 1).ids;
  const at::Tensor ids = at::tensor(at::ArrayRef<TokenId>(prompt)).to(at::kLong).unsqueeze(0);
  const Batch batch{ids, at::zeros_like(ids)};
  const Transformer model(state.config, state.weights());

  const auto gradient_of = [&](const at::Tensor& loss) {
    state.gradients.zero_();
    loss.backward();
    return state.gradients.clone();
  };
  const AttentionCosts costs{.look_back = 0.7, .look_back_tokens = 2};
  const StepLoss with = step_loss(model, batch, {}, costs, false);
  const StepLoss without = step_loss(model, batch, {}, {}, false);
  EXPECT_EQ(without.looking_back.item<double>(), 0.0);
  const at::Tensor fast = gradient_of(with.loss) - gradient_of(without.loss);

  at::Tensor cost = at::zeros({}, at::kDouble);
  double looking_back = 0.0;
  int count = 0;
  run_whole(model, ids, [&](int layer, const StateTensors& states) {
    if (layer > 0) return;
    const at::Tensor attention = causal_attention(states, model.attention_scale());
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t query = head + 1; query < attention.size(2); ++query) {
        const at::Tensor given = attention[0][head][query][query - 1 - head].to(at::kDouble);
        cost = cost - given.log();
        looking_back += given.item<double>();
        ++count;
      }
    }
  });
  EXPECT_NEAR(with.looking_back.item<double>(), looking_back / count, 1e-6);
  EXPECT_NEAR(with.loss.item<double>() - without.loss.item<double>(),
              0.7 * cost.item<double>() / count, 1e-4);
  const at::Tensor exact = gradient_of(0.7 * cost / count);
  ASSERT_GT(exact.norm().item<double>(), 1e-3);
  EXPECT_LT((fast - exact).norm().item<double>(), 1e-3 * exact.norm().item<double>());
}

/// Training with that cost makes layer 0's first heads look back; the log shows it.
TEST(Training, LookingBackIsLearntAndTheLogShowsIt) {
  Recipe recipe = parse_recipe(kTiny, "tiny");
  recipe.look_back = {.cost = {.value = 5.0, .rise = 1, .fall = 30, .end = 30}, .tokens = 1};
  recipe.optimizer.decays.clear();
  const TemporaryFolder folder;
  train::train(recipe, options_for(folder / "back"));
  const LogTable log = read_log(folder / "back" / "log.csv");
  ASSERT_EQ(log.rows.size(), 6U);
  EXPECT_EQ(log.number(0, "look_back_cost"), 5.0);
  EXPECT_GT(log.number(5, "looking_back"), 2.0 * log.number(0, "looking_back"));
}

/// Training with the cost and nothing else to learn makes heads rest; the log says so.
TEST(Training, RestGrowsAttentionOnTokenZeroAndTheLogShowsIt) {
  Recipe recipe = parse_recipe(kTiny, "tiny");
  recipe.rest.cost = {.value = 5.0, .rise = 1, .fall = 25, .end = 30};
  const TemporaryFolder folder;
  train::train(recipe, options_for(folder / "resting"));
  const LogTable log = read_log(folder / "resting" / "log.csv");
  ASSERT_EQ(log.rows.size(), 6U);
  EXPECT_EQ(log.number(0, "rest_cost"), 5.0);
  EXPECT_NEAR(log.number(5, "rest_cost"), 1.0, 1e-9);  // the step before the end
  EXPECT_GT(log.number(5, "resting"), log.number(0, "resting") + 0.1);
  EXPECT_GT(log.number(5, "resting_value"), 0.0);
}

/// With the cost of a large value beside it, heads rest on a token 0 of smaller value.
TEST(Training, SmallValueMakesTheRestingValueSmaller) {
  const auto last_value = [](double small_value) {
    Recipe recipe = parse_recipe(kTiny, "tiny");
    recipe.rest = {.cost = {.value = 5.0, .rise = 1, .fall = 30, .end = 30},
                   .small_value = small_value};
    const TemporaryFolder folder;
    const TrainingState state = train::train(recipe, options_for(folder / "small"));
    const Transformer model(state.config, state.weights());
    const Vocabulary vocabulary;
    const Corpus corpus(vocabulary, 3);
    const std::vector<TokenId> prompt = corpus.needle_prompt(0, 90, 1).ids;
    const at::Tensor ids = at::tensor(at::ArrayRef<TokenId>(prompt)).to(at::kLong).unsqueeze(0);
    return step_loss(model, {ids, at::zeros_like(ids)}, {}, {}, false).value.item<double>();
  };
  EXPECT_LT(last_value(20.0), 0.8 * last_value(0.0));
}

TEST(Training, LowersTheLossAndResumesExactly) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  const TemporaryFolder folder;
  const TrainingState whole = train::train(recipe, options_for(folder / "whole"));
  EXPECT_EQ(whole.step, 30);

  TrainOptions interrupted = options_for(folder / "parts");
  interrupted.stop_after = 13;
  EXPECT_EQ(train::train(recipe, interrupted).step, 13);
  const TrainingState resumed = train::train(recipe, options_for(folder / "parts"));
  EXPECT_EQ(resumed.step, 30);
  EXPECT_TRUE(resumed.parameters.equal(whole.parameters));
  EXPECT_TRUE(resumed.second_moment.equal(whole.second_moment));

  std::ifstream log(folder / "whole" / "log.csv");
  std::vector<double> losses;
  for (std::string line; std::getline(log, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 4; ++i) std::getline(fields, field, ',');
    if (field != "loss_text") losses.push_back(std::stod(field));
  }
  ASSERT_EQ(losses.size(), 6U);
  EXPECT_GT(losses.front(), 6.5);  // about log of the vocabulary's size
  EXPECT_LT(losses.back(), losses.front() - 0.5);
}

/// Five Newton-Schulz steps bring singular values to between 0.7 and 1.2 (Jordan 2024), whatever
/// the gradient's own; those of a random square matrix reach down to zero and stay below.
TEST(Training, OrthogonalStepsGoAllDirectionsAlike) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  TrainingState state = initial_state(recipe, at::kCPU);
  const Weights before = [&] {
    Weights copies = state.weights();
    for (auto& [name, weight] : copies) weight = weight.detach().clone();
    return copies;
  }();
  Random random(8);
  for (std::int64_t i = 0; i < state.gradients.size(0); ++i) {
    state.gradients.data_ptr<float>()[i] = static_cast<float>(random.uniform() - 0.5);
  }
  Stage stage;
  stage.weight_decay = 0.0;
  stage.orthogonal = 0.2;
  update(state, recipe.optimizer, 0.01, stage);
  int matrices = 0;
  for (const auto& [name, weight] : state.weights()) {
    const at::Tensor step = (before.at(name) - weight.detach()) / 0.01;
    if (name.find("layers.") != std::string::npos && step.dim() == 2) {
      const double longest = static_cast<double>(std::max(step.size(0), step.size(1)));
      const at::Tensor values = at::linalg_svdvals(step) / (0.2 * std::sqrt(longest));
      EXPECT_LT(values.max().item<double>(), 1.3) << name;
      EXPECT_GT(values.median().item<double>(), 0.6) << name;
      ++matrices;
    } else {
      // Adam's first step: one in each coordinate.
      EXPECT_NEAR(step.abs().max().item<double>(), 1.0, 0.01) << name;
    }
  }
  EXPECT_EQ(matrices, 2 * 7);
  EXPECT_EQ(state.gradients.abs().max().item<double>(), 0.0);
}

TEST(Training, ExportsWhatTheProductLoads) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  const TemporaryFolder folder;
  const TrainingState state = initial_state(recipe, at::kCPU);
  export_model(state, recipe, (folder / "model").string());
  const ModelConfig config = read_model_config(folder / "model");
  const Transformer loaded = load_transformer(folder / "model", config, at::kFloat, at::kCPU);
  EXPECT_EQ(config.bos_token_id, Vocabulary::kBos);
  for (const auto& [name, weight] : state.weights()) {
    EXPECT_TRUE(at::allclose(loaded.weight(name), weight.detach(), 0.01, 1e-6)) << name;
  }

  // Another run can start from them.
  Recipe other = recipe;
  other.seed = 6;
  TrainingState next = initial_state(other, at::kCPU);
  start_from(next, (folder / "model").string());
  for (const auto& [name, weight] : next.weights()) {
    EXPECT_TRUE(weight.detach().equal(loaded.weight(name))) << name;
  }
  TrainingState wider = initial_state(
      parse_recipe(R"({"model": {"hidden": 64}, "stages": [{"steps": 1}]})", "wider"), at::kCPU);
  EXPECT_THROW(start_from(wider, (folder / "model").string()), WorkError);
}

TEST(Training, RefusesACheckpointOfAnotherModel) {
  const TemporaryFolder folder;
  const std::string path = (folder / "checkpoint.pt").string();
  const Recipe tiny = parse_recipe(kTiny, "tiny");
  save_state(initial_state(tiny, at::kCPU), path);
  EXPECT_THROW(load_state(parse_recipe(R"({"stages": [{"steps": 1}]})", "other"), path, at::kCPU),
               FileError);
  std::ofstream(path) << "not a checkpoint";
  EXPECT_THROW(load_state(tiny, path, at::kCPU), FileError);
}

/// A model whose queries and keys are zero attends evenly: token 0 gets 1/(q+1) from query q.
TEST(Measure, FindsEvenAttentionInAModelWithoutQueries) {
  const Recipe recipe = parse_recipe(kTiny, "tiny");
  const TrainingState state = initial_state(recipe, at::kCPU);
  Weights weights = state.weights();
  for (auto& [name, weight] : weights) {
    if (name.find("q_proj") != std::string::npos) weight = at::zeros_like(weight.detach());
  }
  const Transformer model(state.config, weights);
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 1);
  const NeedlePrompt prompt = corpus.needle_prompt(0, 200, 1);
  const SinkReport sinks = measure_sinks(model, prompt.ids, at::kCPU);
  double expected = 0.0;
  for (std::size_t q = 1; q < prompt.ids.size(); ++q) expected += 1.0 / static_cast<double>(q + 1);
  expected /= static_cast<double>(prompt.ids.size() - 1);
  ASSERT_EQ(sinks.strength.size(), 4U);
  ASSERT_EQ(sinks.value_ratio.size(), 2U);
  for (const double strength : sinks.strength) EXPECT_NEAR(strength, expected, 1e-6);
  EXPECT_EQ(sinks.sink_head_share(), 0.0);
  EXPECT_LT(needle_accuracy(model, corpus, {.length = 128, .needles = 1, .prompts = 10}, at::kCPU),
            0.5);
  // One token among hundreds, evenly attended to, hardly matters.
  const SinkRemoval removal = measure_sink_removal(model, prompt.ids, at::kCPU);
  EXPECT_NEAR(removal.loss, removal.loss_without, 0.05);
}

}  // namespace
}  // namespace kvloupe::train
