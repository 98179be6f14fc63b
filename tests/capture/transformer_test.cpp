#include "capture/model/transformer.h"

#include <gtest/gtest.h>

#include "analysis/error.h"
#include "capture/model/load_transformer.h"
#include "capture/run/block_runner.h"
#include "tests/capture/naive_model.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/capture/whole_model.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

at::Tensor random_ids(std::int64_t batch, std::int64_t tokens, std::int64_t vocab) {
  return at::randint(vocab, {batch, tokens}, at::dtype(at::kLong));
}

at::Tensor mean_loss(const Transformer& model, const at::Tensor& ids) {
  const at::Tensor logits = run_whole(model, ids).slice(1, 0, -1).to(at::kFloat);
  const at::Tensor next = ids.slice(1, 1).unsqueeze(-1);
  return -at::log_softmax(logits, -1).gather(-1, next).mean();
}

TEST(Transformer, WholeSequencesOfABatchAreLikeTheNaiveModel) {
  for (const bool tied : {true, false}) {
    TinyCheckpoint tiny;
    tiny.tied = tied;
    const TemporaryFolder folder;
    tiny.write(folder.path());
    const Transformer model =
        load_transformer(folder.path(), read_model_config(folder.path()), at::kFloat, at::kCPU);
    at::manual_seed(3);
    const at::Tensor ids = random_ids(3, 21, tiny.vocab_size);
    int layers_seen = 0;
    const at::Tensor logprobs =
        at::log_softmax(run_whole(model, ids,
                                  [&](int layer, const StateTensors& states) {
                                    EXPECT_EQ(layer, layers_seen++);
                                    EXPECT_EQ(states.query.sizes(), at::IntArrayRef({3, 4, 21, 6}));
                                    EXPECT_EQ(states.key.sizes(), at::IntArrayRef({3, 2, 21, 6}));
                                  }),
                        -1);
    EXPECT_EQ(layers_seen, tiny.layers);
    const NaiveModel naive(folder.path());
    for (std::int64_t b = 0; b < 3; ++b) {
      std::vector<std::int32_t> sequence;
      for (std::int64_t t = 0; t < 21; ++t) sequence.push_back(ids[b][t].item<int>());
      const Rows expected = naive.run(sequence).log_probabilities;
      for (std::size_t t = 0; t < expected.size(); ++t) {
        for (std::size_t id = 0; id < expected[t].size(); ++id) {
          ASSERT_NEAR(logprobs[b][static_cast<std::int64_t>(t)][static_cast<std::int64_t>(id)]
                          .item<float>(),
                      expected[t][id], 1e-4);
        }
      }
    }
  }
}

TEST(BlockRunner, TokensThatMayNeverBeGeneratedTakeNoMemory) {
  const TinyCheckpoint tiny;
  const TemporaryFolder folder;
  tiny.write(folder.path());
  const Transformer model =
      load_transformer(folder.path(), read_model_config(folder.path()), at::kFloat, at::kCPU);
  const std::vector<std::int32_t> ids = {1, 5, 2, 7, 3, 4, 9, 8, 6, 1, 2, 3};
  const auto last_hidden = [&](int most_tokens, int capacity) {
    BlockRunner::Options options;
    options.most_tokens = most_tokens;
    options.capacity = capacity;
    options.positions = Positions::compact;
    BlockRunner runner(model, options);
    const Progress progress;
    at::Tensor hidden;
    for (std::size_t first = 0; first < ids.size(); first += 4)
      hidden = runner.run(
          std::span(ids).subspan(first, 4), [](const LayerStep&) {}, progress);
    return hidden;
  };
  EXPECT_TRUE(at::equal(last_hidden(1 << 30, 6), last_hidden(12, 0)));
}

TEST(Transformer, GradientsAreTheSlopesOfTheLoss) {
  const TinyCheckpoint tiny;
  const TemporaryFolder folder;
  tiny.write(folder.path());
  const ModelConfig config = read_model_config(folder.path());
  Weights weights = load_transformer(folder.path(), config, at::kFloat, at::kCPU).weights();
  at::manual_seed(4);
  const at::Tensor ids = random_ids(2, 12, tiny.vocab_size);
  for (auto& [name, weight] : weights) weight = weight.clone().requires_grad_(true);
  mean_loss(Transformer(config, weights), ids).backward();
  for (const auto& [name, weight] : weights) {
    ASSERT_TRUE(weight.grad().defined()) << name;
    // Along its gradient the loss must rise by the gradient's length.
    const at::Tensor gradient = weight.grad();
    const double length = gradient.norm().item<double>();
    ASSERT_GT(length, 0.0) << name;
    const double step = 2e-2;
    const auto loss_at = [&](double distance) {
      Weights moved;
      for (const auto& [other, value] : weights) moved[other] = value.detach();
      moved[name] = weight.detach() + gradient * (distance / length);
      return mean_loss(Transformer(config, moved), ids).item<double>();
    };
    EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), length, 0.02 * length + 2e-4)
        << name;
  }
}

TEST(Transformer, MissingAndMisshapenWeightsAreNamed) {
  const TinyCheckpoint tiny;
  const TemporaryFolder folder;
  tiny.write(folder.path());
  const ModelConfig config = read_model_config(folder.path());
  Weights weights = load_transformer(folder.path(), config, at::kFloat, at::kCPU).weights();
  weights["model.norm.weight"] = at::ones({3});
  EXPECT_THROW(Transformer(config, weights), WorkError);
  weights.erase("model.norm.weight");
  EXPECT_THROW(Transformer(config, weights), WorkError);
}

}  // namespace
}  // namespace kvloupe::test
