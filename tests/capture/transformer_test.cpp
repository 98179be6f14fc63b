#include "capture/model/transformer.h"

#include <tbb/global_control.h>

#include "capture/model/load_transformer.h"
#include "capture/model/projection.h"
#include "capture/run/block_runner.h"
#include "capture/run/capture.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/naive_model.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/capture/whole_model.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

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
    TinyCheckpoint tiny{.tied = tied};
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

// Products in pieces: the formula, gradients, and bits that no number of threads changes.

Projection random_projection(std::int64_t n, std::int64_t k, bool bias) {
  return {at::randn({n, k}), bias ? at::randn({n}) : at::Tensor()};
}

void expect_the_formula(const at::Tensor& product, const at::Tensor& x, const Projection& of) {
  at::Tensor expected = at::matmul(x.to(at::kDouble), of.weight.t().to(at::kDouble));
  if (of.bias.defined()) expected = expected + of.bias.to(at::kDouble);
  ASSERT_EQ(product.sizes(), expected.sizes());
  ASSERT_EQ(product.scalar_type(), x.scalar_type());
  EXPECT_LT((product.to(at::kDouble) - expected).abs().max().item<double>(), 1e-4);
}

TEST(Projection, IsTheFormulaForAnyNumberOfColumns) {
  at::manual_seed(1);
  for (const std::int64_t rows : {1, 2, 17}) {
    for (const std::int64_t n : {1, 95, 96, 97, 288, 289, 700}) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << n << " columns, bias " << bias);
        const Projection projection = random_projection(n, 33, bias);
        const at::Tensor x = at::randn({1, rows, 33});
        expect_the_formula(projection(x), x, projection);
      }
    }
  }
}

TEST(Projection, SeveralOfOneInputAndInputsThatAreNotDense) {
  at::manual_seed(2);
  const Projection a = random_projection(100, 24, false), b = random_projection(31, 24, true);
  const at::Tensor x = at::randn({2, 24, 5}).transpose(1, 2);
  const std::vector<at::Tensor> both = project(x, {&a, &b});
  ASSERT_EQ(both.size(), 2U);
  expect_the_formula(both[0], x, a);
  expect_the_formula(both[1], x, b);
  const Projection turned{at::randn({24, 50}).t(), {}};
  expect_the_formula(turned(x), x, turned);
  EXPECT_EQ(a(at::empty({1, 0, 24})).sizes(), at::IntArrayRef({1, 0, 100}));
}

TEST(Projection, LibtorchKeepsGradientsAndOtherTypes) {
  at::manual_seed(3);
  const Projection learns{at::randn({100, 24}).requires_grad_(true), {}};
  const at::Tensor x = at::randn({1, 4, 24});
  EXPECT_TRUE(learns(x).requires_grad());
  {
    const at::NoGradGuard no_gradients;
    EXPECT_FALSE(learns(x).requires_grad());
    expect_the_formula(learns(x), x, learns);
  }
  const Projection narrow{at::randn({100, 24}).to(at::kBFloat16), {}};
  EXPECT_EQ(narrow(x.to(at::kBFloat16)).scalar_type(), at::kBFloat16);
}

TEST(Projection, ThreadsChangeNoBit) {
  at::manual_seed(4);
  const Projection projection = random_projection(1000, 300, true);
  for (const std::int64_t rows : {1, 5, 128}) {
    const at::Tensor x = at::randn({1, rows, 300});
    std::vector<at::Tensor> products;
    for (const std::size_t threads : {1, 2, 3}) {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
      products.push_back(projection(x));
    }
    EXPECT_TRUE(products[1].equal(products[0]));
    EXPECT_TRUE(products[2].equal(products[0]));
  }
}

TEST(Capture, ThreadsAndPackedWeightsChangeNoBitOfATrace) {
  TinyCheckpoint tiny;  // of many pieces, and a head that is expanded in two parts
  tiny.hidden_size = 200;
  tiny.head_dim = 48;
  tiny.intermediate_size = 700;
  tiny.vocab_size = 8100;
  tiny.tied = false;
  const TemporaryFolder folder;
  tiny.write(folder.path());
  write_file(folder / "ids.txt", random_ids_text(70, tiny.vocab_size, 5));
  CaptureRequest request{.model = folder.path(),
                         .ids = folder / "ids.txt",
                         .block = 33,
                         .generate = 3,
                         .attention = AttentionStorage::full,
                         .dtype = "f32"};
  std::unique_ptr<Trace> expected;
  for (const WeightStorage storage : {WeightStorage::expanded, WeightStorage::packed}) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << threads << " threads");
      request.target = folder / "trace.h5";
      request.model.weights = storage;
      request.threads = threads;
      capture(request);
      auto trace = std::make_unique<Trace>(request.target);
      EXPECT_EQ(trace->run().threads, threads);
      if (!expected) {
        std::filesystem::rename(request.target, folder / "expected.h5");
        expected = std::make_unique<Trace>(folder / "expected.h5");
        continue;
      }
      expect_same_numbers(*trace, *expected);
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
