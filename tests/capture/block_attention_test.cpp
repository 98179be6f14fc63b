// Attention over a cache, in loops of its own and in tensors, against the formula in double
// precision.
#include "capture/model/block_attention.h"

#include <tbb/global_control.h>

#include "analysis/trace/half.h"
#include "capture/model/row_attention.h"
#include "capture/model/row_softmax.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct Shape {
  int heads = 2;
  int group = 3;
  int before = 37;  // tokens before the block
  int m = 29;
  int d = 64;
};

/// A cache of random states and a block's queries.
struct Made {
  LayerCache cache;
  at::Tensor query;  // [Hq,m,d]
};

Made make(const Shape& shape, double size = 1.0) {
  at::manual_seed(shape.d + shape.m);
  LayerCache cache(shape.heads, shape.d, shape.before + shape.m, at::dtype(at::kFloat));
  const auto states = [&](int m) { return at::randn({shape.heads, m, shape.d}) * size; };
  if (shape.before > 0) cache.append(states(shape.before), states(shape.before));
  cache.append(states(shape.m), states(shape.m));
  return {cache, at::randn({shape.heads * shape.group, shape.m, shape.d}) * size};
}

double as_read(double x, Storage storage) {
  if (storage == Storage::float32) return x;
  const auto rounded = static_cast<double>(float_from_half(half_from_float(static_cast<float>(x))));
  return std::isinf(rounded) ? x : rounded;
}

/// One query's softmax over the entries of its head that it sees, by entry, and its log-sum-exp.
struct NaiveRow {
  std::vector<double> weights;
  double logsumexp = 0.0;
};

NaiveRow naive_row(const Made& made, int query_head, int i, const AttentionOptions& options,
                   Storage storage) {
  const auto head = query_head / static_cast<int>(made.query.size(0) / made.cache.heads());
  const std::vector<std::int32_t>& tokens = made.cache.tokens(head);
  const int n = static_cast<int>(tokens.size());
  const int m = static_cast<int>(made.query.size(1));
  const auto token = static_cast<int>(made.cache.seen()) - m + i;
  const at::Tensor keys = made.cache.keys(head).contiguous();
  const at::Tensor query = made.query[query_head][i].contiguous();
  const at::Tensor sizes = made.cache.log_sizes(head);
  const auto d = static_cast<int>(made.query.size(2));
  std::vector<double> logits(static_cast<std::size_t>(n), -INFINITY);
  double largest = -INFINITY;
  for (int e = 0; e < n; ++e) {
    const int other = tokens[e];
    if (other > token || (options.window > 0 && token - other >= options.window)) continue;
    double product = 0.0;
    for (int c = 0; c < d; ++c) {
      product += as_read(static_cast<double>(query.data_ptr<float>()[c]), storage) *
                 as_read(static_cast<double>(keys.data_ptr<float>()[e * d + c]), storage);
    }
    double& logit = logits[e];
    logit = product * options.scale;
    if (options.softcap > 0.0) logit = options.softcap * std::tanh(logit / options.softcap);
    if (sizes.defined()) logit += static_cast<double>(sizes.data_ptr<float>()[e]);
    largest = std::max(largest, logit);
  }
  double sum = 0.0;
  if (options.sink_logits.defined()) {
    const auto sink = options.sink_logits[query_head].item<double>();
    largest = std::max(largest, sink);
    sum = std::exp(sink - largest);
  }
  for (const double logit : logits) sum += std::exp(logit - largest);
  NaiveRow row;
  row.logsumexp = largest + std::log(sum);
  for (const double logit : logits) row.weights.push_back(std::exp(logit - row.logsumexp));
  return row;
}

void expect_as_the_formula(const Made& made, const AttentionOptions& options, double tolerance) {
  const BlockAttention result = attend_block(made.query, made.cache, options, Progress());
  const int group = static_cast<int>(made.query.size(0) / made.cache.heads());
  const int d = static_cast<int>(made.query.size(2));
  for (int h = 0; h < static_cast<int>(made.query.size(0)); ++h) {
    const std::vector<std::int32_t>& tokens = made.cache.tokens(h / group);
    const at::Tensor values = made.cache.values(h / group).contiguous();
    for (int i = 0; i < static_cast<int>(made.query.size(1)); ++i) {
      SCOPED_TRACE(testing::Message() << "query head " << h << ", query " << i);
      const NaiveRow own = naive_row(made, h, i, options, Storage::float32);
      for (int c = 0; c < d; ++c) {
        double expected = 0.0;
        for (std::size_t e = 0; e < own.weights.size(); ++e) {
          expected +=
              own.weights[e] *
              static_cast<double>(values.data_ptr<float>()[static_cast<std::int64_t>(e) * d + c]);
        }
        ASSERT_NEAR(result.outputs[h][i][c].item<double>(), expected, tolerance);
      }
      const NaiveRow stored = naive_row(made, h, i, options, options.storage);
      ASSERT_NEAR(result.logsumexp[h][i].item<double>(), stored.logsumexp,
                  tolerance * std::max(1.0, std::abs(stored.logsumexp)));
      if (!options.keep_rows) continue;
      std::vector<double> by_token(static_cast<std::size_t>(made.cache.seen()), 0.0);
      for (std::size_t e = 0; e < tokens.size(); ++e) {
        by_token[tokens[e]] = stored.weights[e];
      }
      for (std::size_t t = 0; t < by_token.size(); ++t) {
        ASSERT_NEAR(result.rows[h][i][static_cast<std::int64_t>(t)].item<double>(), by_token[t],
                    tolerance);
      }
    }
  }
}

AttentionOptions options_of(const Shape& shape, Storage storage, bool keep_rows) {
  AttentionOptions options;
  options.scale = 1.0 / std::sqrt(static_cast<double>(shape.d));
  options.storage = storage;
  options.keep_rows = keep_rows;
  return options;
}

/// A head with holes, and one with entries that stand for several tokens.
void cut(Made& made) {
  std::vector<std::int32_t> rows;
  for (std::int32_t e = 0; e < static_cast<std::int32_t>(made.cache.length(0)); ++e) {
    if (e % 3 != 1 || e >= static_cast<std::int32_t>(made.cache.length(0) - made.query.size(1))) {
      rows.push_back(e);
    }
  }
  made.cache.keep(0, rows);
  std::vector<float> sizes;
  for (int e = 0; e < made.cache.length(1); ++e) sizes.push_back(0.1F * static_cast<float>(e % 5));
  made.cache.set_log_sizes(1, sizes);
}

TEST(BlockAttention, IsTheFormula) {
  for (const Shape& shape : {Shape{}, Shape{1, 1, 0, 50, 6}, Shape{2, 2, 300, 9, 70},
                             Shape{2, 4, 5, 1, 128}, Shape{1, 8, 40, 70, 33}}) {
    const Made made = make(shape);
    for (const Storage storage : {Storage::float32, Storage::float16}) {
      for (const bool plain : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "d " << shape.d << (storage == Storage::float16 ? ", float16" : "")
                     << (plain ? ", in tensors" : ""));
        AttentionOptions options = options_of(shape, storage, shape.d == 64);
        options.plain = plain;
        expect_as_the_formula(made, options, 3e-6);
      }
    }
  }
}

TEST(BlockAttention, IsTheFormulaOverCutCachesAndThroughWindows) {
  for (const int window : {0, 1, 7, 40, 64}) {
    for (const bool plain : {false, true}) {
      SCOPED_TRACE(testing::Message() << "window " << window << (plain ? ", in tensors" : ""));
      const Shape shape;
      Made made = make(shape);
      if (window != 40) cut(made);
      AttentionOptions options = options_of(shape, Storage::float16, true);
      options.window = window;
      options.plain = plain;
      expect_as_the_formula(made, options, 3e-6);
    }
  }
}

TEST(BlockAttention, IsTheFormulaWithCapsAndSinkLogits) {
  for (const double softcap : {0.0, 1.5, 50.0}) {
    for (const char* sinks : {"none", "usual", "far above", "far below"}) {
      for (const bool plain : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "cap " << softcap << ", sinks " << sinks << (plain ? ", in tensors" : ""));
        const Shape shape;
        Made made = make(shape, 2.0);
        cut(made);
        AttentionOptions options = options_of(shape, Storage::float16, true);
        options.plain = plain;
        options.softcap = softcap;
        options.window = 20;
        const std::string kind = sinks;
        if (kind != "none") {
          const double middle = kind == "usual" ? 0.0 : kind == "far above" ? 900.0 : -900.0;
          options.sink_logits = at::randn({shape.heads * shape.group}) + middle;
        }
        expect_as_the_formula(made, options, 6e-6);
      }
    }
  }
}

TEST(BlockAttention, LongRowsAndLargeLogits) {
  const Shape shape{1, 1, 3000, 3, 64};
  const Made made = make(shape, 6.0);  // logits up to some hundreds
  expect_as_the_formula(made, options_of(shape, Storage::float16, false), 1e-5);
}

TEST(BlockAttention, ThreadsChangeNoBit) {
  const Shape shape{2, 3, 700, 128, 64};
  const Made made = make(shape);
  const AttentionOptions options = options_of(shape, Storage::float16, true);
  const auto attend_with = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return attend_block(made.query, made.cache, options, Progress());
  };
  const BlockAttention alone = attend_with(1);
  const BlockAttention shared = attend_with(3);
  EXPECT_TRUE(alone.outputs.equal(shared.outputs));
  EXPECT_TRUE(alone.logsumexp.equal(shared.logsumexp));
  EXPECT_TRUE(alone.rows.equal(shared.rows));
}

TEST(BlockAttention, StopsWhenAsked) {
  const Shape shape;
  const Made made = make(shape);
  Progress progress;
  progress.cancel();
  EXPECT_THROW(
      attend_block(made.query, made.cache, options_of(shape, Storage::float32, false), progress),
      Cancelled);
}

TEST(AsStored, RoundsWhatFitsFloat16) {
  const at::Tensor x = at::tensor({0.1F, -65504.0F, 70000.0F, -1e30F, 1e-7F, 0.0F});
  const at::Tensor stored = as_stored(x, Storage::float16);
  const at::Tensor halves = x.to(at::kHalf).to(at::kFloat);
  for (const int i : {0, 1, 4, 5}) EXPECT_EQ(stored[i].item<float>(), halves[i].item<float>());
  for (const int i : {2, 3}) EXPECT_EQ(stored[i].item<float>(), x[i].item<float>());
  EXPECT_TRUE(as_stored(x, Storage::float32).equal(x));
  const at::Tensor wide = at::randn({70, 3000});
  EXPECT_TRUE(as_stored(wide.t(), Storage::float16).equal(wide.t().to(at::kHalf).to(at::kFloat)));
}

TEST(SumOfExponentials, IsTheSumToAFloatsRounding) {
  for (const std::size_t n : {1U, 7U, 8U, 100U, 513U, 5000U}) {
    for (const float scale : {1.0F, 0.125F, 3.7F}) {
      const Matrix random = random_matrix(1, static_cast<int>(n), 5);
      std::vector<float> values(random.data(), random.data() + n);
      for (float& value : values) value = value * 9.0F + 2.0F;
      const float largest = *std::max_element(values.begin(), values.end());
      std::vector<float> kept = values;
      const double sum = sum_of_exponentials(kept.data(), n, largest, scale, true);
      std::vector<float> read = values;
      EXPECT_EQ(sum_of_exponentials(read.data(), n, largest, scale, false), sum);
      EXPECT_EQ(read, values);
      double expected = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        const double one = std::exp(static_cast<double>(scale) * (static_cast<double>(values[i]) -
                                                                  static_cast<double>(largest)));
        expected += one;
        if (one > 1e-37) {
          EXPECT_NEAR(static_cast<double>(kept[i]), one, 4e-7 * one * (1.0 - std::log(one)));
        } else {
          EXPECT_LE(static_cast<double>(kept[i]), 1.2e-37);
        }
      }
      EXPECT_NEAR(sum, expected, 1e-6 * expected);
    }
  }
}

TEST(SumOfExponentials, OfWhatIsNoNumberIsNone) {
  std::vector<float> values(20, 1.0F);
  values[13] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(sum_of_exponentials(values.data(), 20, 1.0F, 0.5F, true)));
  values.assign(20, -std::numeric_limits<float>::infinity());
  values[3] = 0.0F;
  EXPECT_EQ(sum_of_exponentials(values.data(), 20, 0.0F, 0.5F, true), 1.0);
}

TEST(AddWeightedSums, AddsTheProductOfAnyShape) {
  for (const auto& [rows, n, d] :
       {std::array{1, 1, 1}, {7, 300, 64}, {13, 257, 35}, {6, 30, 128}}) {
    const Matrix weights = random_matrix(rows, n + 3, 1), values = random_matrix(n, d + 2, 2);
    Matrix sums = Matrix::Ones(rows, d + 1);
    add_weighted_sums({static_cast<std::size_t>(rows), static_cast<std::size_t>(n),
                       static_cast<std::size_t>(d), weights.data(), static_cast<std::size_t>(n + 3),
                       values.data(), static_cast<std::size_t>(d + 2), sums.data(),
                       static_cast<std::size_t>(d + 1)});
    for (int r = 0; r < rows; ++r) {
      EXPECT_EQ(sums(r, d), 1.0F);
      for (int c = 0; c < d; ++c) {
        double expected = 1.0;
        for (int k = 0; k < n; ++k) {
          expected += static_cast<double>(weights(r, k)) * static_cast<double>(values(k, c));
        }
        EXPECT_NEAR(static_cast<double>(sums(r, c)), expected, 5e-5);
      }
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
