// Writes a trace of the shape of a large model, layer by layer, so that speed and memory can be
// measured without one: by default Llama-3-8B's, 32 layers, 32 query heads on 8 heads of 128,
// D = 4096, 4096 tokens, float16, 2.7 GB.
//
//   kvloupe_made_trace TARGET.h5 [LAYERS [QUERY_HEADS [HEADS [HEAD_DIM [HIDDEN [TOKENS
//   [BLOCK]]]]]]]
//
// The numbers are random, but not all alike, so that policies differ: every query of a head has a
// direction in common, which the key of token 0 has too (the sink) and those of a few others in
// part (the tail is heavy); and queries and keys drift together, so that near tokens attend to each
// other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "analysis/metric/attention.h"
#include "analysis/progress.h"
#include "analysis/trace/half.h"
#include "analysis/trace/trace_writer.h"

namespace kvloupe {
namespace {

constexpr float kSinkLogit = 7.0F;    // of token 0 above the others, about
constexpr float kDriftKept = 0.99F;   // of the drift from one token to the next
constexpr float kDriftOfKeys = 0.6F;  // how much of a key is drift
constexpr float kTail = 0.45F;        // the inverse of the tail's exponent
constexpr float kTailScale = 0.06F;   // of the common direction, in an ordinary key
constexpr float kAway = 0.3F;         // the other keys point away from it, as a sink's key is rare
constexpr std::size_t kPool = 1U << 24U;

struct MadeShape {
  int layers = 32, query_heads = 32, heads = 8, head_dim = 128, hidden = 4096, tokens = 4096;
  int block = 128;
};

/// Normal numbers that are made once and handed out from random places: a trace has a billion.
class Normals {
 public:
  explicit Normals(std::uint64_t seed) : random_(seed), pool_(kPool) {
    std::normal_distribution<float> normal;
    for (float& x : pool_) x = normal(random_);
  }
  Matrix matrix(Eigen::Index rows, Eigen::Index columns, float deviation = 1.0F) {
    Matrix result(rows, columns);
    for (Eigen::Index row = 0; row < rows; ++row) {
      const std::size_t at = random_() % (kPool - static_cast<std::size_t>(columns));
      const Eigen::Map<const Eigen::RowVectorXf> numbers(pool_.data() + at, columns);
      result.row(row) = deviation * numbers;
    }
    return result;
  }
  float uniform() { return std::uniform_real_distribution<float>(1e-6F, 1.0F)(random_); }

 private:
  std::mt19937_64 random_;
  std::vector<float> pool_;
};

void round_to_half(Matrix& m) {
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(m.size()));
  const std::span<float> all(m.data(), halves.size());
  halves_from_floats(all, halves);
  floats_from_halves(halves, all);
}

std::vector<float> rows_of(const std::vector<Matrix>& heads, int first, int count) {
  std::vector<float> result;
  for (const Matrix& head : heads) {
    const float* begin = head.data() + first * head.cols();
    result.insert(result.end(), begin, begin + count * head.cols());
  }
  return result;
}

struct MadeLayer {
  std::vector<Matrix> queries, keys, values, weights;
};

/// Numbers that change slowly from row to row, of variance 1: [rows,columns].
Matrix drift(Normals& normals, Eigen::Index rows, Eigen::Index columns) {
  Matrix result = normals.matrix(rows, columns);
  const float step = std::sqrt(1.0F - kDriftKept * kDriftKept);
  for (Eigen::Index row = 1; row < rows; ++row) {
    result.row(row) = kDriftKept * result.row(row - 1) + step * result.row(row);
  }
  return result;
}

MadeLayer make_layer(const MadeShape& shape, Normals& normals) {
  MadeLayer layer;
  const Eigen::Index tokens = shape.tokens, d = shape.head_dim;
  const float length = std::sqrt(static_cast<float>(d));
  const int group = shape.query_heads / shape.heads;
  for (int head = 0; head < shape.heads; ++head) {
    const Eigen::RowVectorXf common = normals.matrix(1, d).row(0).normalized();
    const Matrix slow = drift(normals, tokens, d);
    Matrix key = std::sqrt(1.0F - kDriftOfKeys * kDriftOfKeys) * normals.matrix(tokens, d) +
                 kDriftOfKeys * slow;
    for (Eigen::Index i = 0; i < tokens; ++i) {
      const float heavy = kTailScale * (std::pow(normals.uniform(), -kTail) - 1.0F);
      key.row(i) += (std::min(heavy, 0.9F) - kAway) * length * common;
    }
    Matrix value = normals.matrix(tokens, d);
    key.row(0) = common * length;
    value.row(0) *= 0.1F;
    for (int i = 0; i < group; ++i) {
      Matrix query = 0.7F * normals.matrix(tokens, d) + 0.7F * slow;
      query.rowwise() += common * kSinkLogit;
      layer.queries.push_back(std::move(query));
      layer.weights.push_back(
          normals.matrix(d, shape.hidden, 1.0F / std::sqrt(static_cast<float>(shape.hidden))));
    }
    layer.keys.push_back(std::move(key));
    layer.values.push_back(std::move(value));
  }
  for (auto* all : {&layer.queries, &layer.keys, &layer.values, &layer.weights}) {
    for (Matrix& m : *all) round_to_half(m);
  }
  return layer;
}

void write_layer(TraceWriter& writer, const MadeShape& shape, const MadeLayer& layer, int index,
                 const std::vector<Block>& blocks) {
  const int group = shape.query_heads / shape.heads;
  writer.write_output_weight(index, rows_of(layer.weights, 0, shape.head_dim));
  std::vector<float> sums, l1, l2;  // [Hq,T]
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  Progress progress;
  for (int query_head = 0; query_head < shape.query_heads; ++query_head) {
    const auto q = static_cast<std::size_t>(query_head);
    const auto h = static_cast<std::size_t>(query_head / group);
    const std::vector<float> own =
        attention_logsumexp(view(layer.queries[q]), view(layer.keys[h]), scale, 0, progress);
    sums.insert(sums.end(), own.begin(), own.end());
    for (const Block& block : blocks) {
      const Matrix outputs =
          layer.values[h].middleRows(block.first, block.size()) * layer.weights[q];
      for (Eigen::Index i = 0; i < outputs.rows(); ++i) {
        l1.push_back(outputs.row(i).lpNorm<1>());
        l2.push_back(outputs.row(i).norm());
      }
    }
  }
  const auto columns = [&](const std::vector<float>& all, const Block& block) {
    std::vector<float> result;
    for (int query_head = 0; query_head < shape.query_heads; ++query_head) {
      const auto begin = all.begin() + query_head * shape.tokens + block.first;
      result.insert(result.end(), begin, begin + block.size());
    }
    return result;
  };
  for (const Block& block : blocks) {
    const int m = block.size();
    writer.write_states(index, block.first, m, rows_of(layer.queries, block.first, m),
                        rows_of(layer.keys, block.first, m), rows_of(layer.values, block.first, m));
    writer.write_attention_logsumexp(index, block.first, m, columns(sums, block));
    writer.write_value_out_norms(index, block.first, m, columns(l1, block), columns(l2, block));
  }
}

void write_trace(const std::string& target, const MadeShape& shape) {
  ModelInfo model{.name = "made",
                  .architecture = "LlamaForCausalLM",
                  .num_layers = shape.layers,
                  .num_heads = shape.query_heads,
                  .num_kv_heads = shape.heads,
                  .head_dim = shape.head_dim,
                  .hidden_size = shape.hidden,
                  .vocab_size = 1000,
                  .rope_scaling = "null",
                  .config = "{}"};
  RunInfo run{.block_size = shape.block,
              .prompt_length = shape.tokens,
              .threads = 1,
              .attention_scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim))};
  const std::vector<Block> blocks = make_blocks(shape.tokens, 0, shape.block);
  TraceWriter writer(target, model, run);
  Normals normals(1);
  for (int layer = 0; layer < shape.layers; ++layer) {
    fmt::print(stderr, "\rlayer {} of {}", layer + 1, shape.layers);
    write_layer(writer, shape, make_layer(shape, normals), layer, blocks);
  }
  fmt::print(stderr, "\n");
  TokenTable tokens;
  for (int i = 0; i < shape.tokens; ++i) {
    tokens.ids.push_back(i % model.vocab_size);
    tokens.text.push_back(i == 0 ? "<s>" : fmt::format(" w{}", i));
  }
  writer.finish(run, tokens, blocks, {});
}

}  // namespace
}  // namespace kvloupe

int main(int count, char** words) {
  kvloupe::MadeShape shape;
  int* const fields[] = {&shape.layers, &shape.query_heads, &shape.heads, &shape.head_dim,
                         &shape.hidden, &shape.tokens,      &shape.block};
  if (count < 2 || words[1][0] == '-' || count > 2 + static_cast<int>(std::size(fields))) {
    fmt::print(stderr,
               "usage: kvloupe_made_trace TARGET.h5 [LAYERS [QUERY_HEADS [HEADS [HEAD_DIM [HIDDEN "
               "[TOKENS [BLOCK]]]]]]]\n");
    return 2;
  }
  for (int i = 2; i < count; ++i) *fields[i - 2] = std::max(1, std::atoi(words[i]));
  if (shape.query_heads % shape.heads != 0) {
    fmt::print(stderr, "{} query heads cannot be shared by {} heads\n", shape.query_heads,
               shape.heads);
    return 2;
  }
  try {
    kvloupe::write_trace(words[1], shape);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 1;
  }
  return 0;
}
