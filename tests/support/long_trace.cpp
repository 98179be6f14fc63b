#include "tests/support/long_trace.h"

#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/math/attention.h"
#include "analysis/trace/half.h"
#include "analysis/trace/trace_writer.h"
#include "tests/support/model_attribute.h"
#include "tests/support/unwatched.h"

namespace kvloupe::test {

namespace {
constexpr float kSinkLogit = 7.0F;    // of token 0 above the others, about
constexpr float kDriftKept = 0.99F;   // of the drift from one token to the next
constexpr float kDriftOfKeys = 0.6F;  // how much of a key is drift
constexpr float kCommon = -0.28F;     // of the common direction, in an ordinary key
constexpr int kRareKey = 97;          // one key in so many has much of it
constexpr std::size_t kPool = std::size_t{1} << 22U;

/// Normal numbers that are made once and handed out from random places: a trace has a billion.
class Normals {
 public:
  explicit Normals(std::uint64_t seed) : random_(seed), pool_(kPool) {
    std::normal_distribution<float> normal;
    for (float& x : pool_) x = normal(random_);
  }
  Eigen::Map<const Eigen::RowVectorXf> row(Eigen::Index columns) {
    const std::size_t at = random_() % (kPool - static_cast<std::size_t>(columns));
    return {pool_.data() + at, columns};
  }

 private:
  std::mt19937_64 random_;
  std::vector<float> pool_;
};

/// The state that a key-value head carries from one token to the next.
struct Head {
  Eigen::RowVectorXf common, slow;
};

/// The states of one block, all heads one after the other.
struct BlockOfStates {
  Matrix queries, keys, values;
};

void round_to_half(Matrix& m) {
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(m.size()));
  const std::span<float> all(m.data(), halves.size());
  halves_from_floats(all, halves);
  floats_from_halves(halves, all);
}

BlockOfStates make_block(const LongTraceOptions& options, const Block& block,
                         std::vector<Head>& heads, Normals& normals) {
  const Eigen::Index m = block.size(), d = options.head_dim;
  const int group = options.query_heads / options.heads;
  const float length = std::sqrt(static_cast<float>(d));
  const float step = std::sqrt(1.0F - kDriftKept * kDriftKept);
  const float of_own = std::sqrt(1.0F - kDriftOfKeys * kDriftOfKeys);
  BlockOfStates states{Matrix(options.query_heads * m, d), Matrix(options.heads * m, d),
                       Matrix(options.heads * m, d)};
  for (int h = 0; h < options.heads; ++h) {
    Head& head = heads[h];
    for (Eigen::Index i = 0; i < m; ++i) {
      const int token = block.first + static_cast<int>(i);
      head.slow = kDriftKept * head.slow + step * normals.row(d);
      auto key = states.keys.row(h * m + i);
      auto value = states.values.row(h * m + i);
      const float share = (token + 13 * h) % kRareKey == 5 ? 0.5F : kCommon;
      key = of_own * normals.row(d) + kDriftOfKeys * head.slow + share * length * head.common;
      value = normals.row(d);
      if (token == 0) {
        key = length * head.common;
        value *= 0.1F;
      }
      for (int g = 0; g < group; ++g) {
        states.queries.row((h * group + g) * m + i) =
            0.7F * normals.row(d) + 0.7F * head.slow + kSinkLogit * head.common;
      }
    }
  }
  for (Matrix* one : {&states.queries, &states.keys, &states.values}) round_to_half(*one);
  return states;
}

std::span<const float> all_of(const Matrix& m) {
  return {m.data(), static_cast<std::size_t>(m.size())};
}

/// [Hq,d,D]: coordinate c of query head q becomes coordinate q·d + c of the output.
std::vector<float> output_weight(const LongTraceOptions& options, int hidden) {
  const auto rows = static_cast<std::size_t>(options.query_heads * options.head_dim);
  std::vector<float> weight(rows * static_cast<std::size_t>(hidden), 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    weight[row * static_cast<std::size_t>(hidden) + row % static_cast<std::size_t>(hidden)] = 1.0F;
  }
  return weight;
}

/// ‖v W_O‖ of each query head: [Hq,m].
void write_norms(TraceWriter& writer, const LongTraceOptions& options, int layer,
                 const Block& block, const Matrix& values) {
  const int group = options.query_heads / options.heads;
  std::vector<float> l1, l2;
  for (int q = 0; q < options.query_heads; ++q) {
    for (Eigen::Index i = 0; i < block.size(); ++i) {
      const auto value = values.row(q / group * block.size() + i);
      l1.push_back(value.lpNorm<1>());
      l2.push_back(value.norm());
    }
  }
  writer.write_value_out_norms(layer, block.first, block.size(), l1, l2);
}

/// The rows of one head out of all blocks: [T,d].
Matrix rows_of(const std::vector<BlockOfStates>& states, Matrix BlockOfStates::*part, int heads,
               int head) {
  std::vector<float> rows;
  for (const BlockOfStates& one : states) {
    const Eigen::Index size = (one.*part).size() / heads;
    rows.insert(rows.end(), (one.*part).data() + head * size,
                (one.*part).data() + (head + 1) * size);
  }
  const Eigen::Index width = (states[0].*part).cols();
  return Eigen::Map<const Matrix>(rows.data(), std::ssize(rows) / width, width);
}

void write_log_sums(TraceWriter& writer, const LongTraceOptions& options, int layer,
                    const std::vector<Block>& blocks, const std::vector<BlockOfStates>& states) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(options.head_dim));
  std::vector<std::vector<float>> sums;
  for (int q = 0; q < options.query_heads; ++q) {
    const int head = q / (options.query_heads / options.heads);
    const Matrix queries = rows_of(states, &BlockOfStates::queries, options.query_heads, q);
    const Matrix keys = rows_of(states, &BlockOfStates::keys, options.heads, head);
    sums.push_back(attention_logsumexp(view(queries), view(keys), scale, 0, unwatched));
  }
  for (const Block& block : blocks) {
    std::vector<float> part;
    for (const std::vector<float>& own : sums)
      part.insert(part.end(), own.begin() + block.first, own.begin() + block.end);
    writer.write_attention_logsumexp(layer, block.first, block.size(), part);
  }
}
}  // namespace

void write_long_trace(const std::filesystem::path& target, const LongTraceOptions& options) {
  ModelInfo model{.name = "made",
                  .architecture = "LlamaForCausalLM",
                  .num_layers = options.own_layers ? options.layers : 1,
                  .num_heads = options.query_heads,
                  .num_kv_heads = options.heads,
                  .head_dim = options.head_dim};
  model.hidden_size =
      options.hidden_size > 0 ? options.hidden_size : options.query_heads * options.head_dim;
  model.vocab_size = 1000;
  model.rope_scaling = "null";
  model.config = "{}";
  RunInfo run{.block_size = options.block,
              .prompt_length = options.tokens,
              .threads = 1,
              .attention_scale = 1.0 / std::sqrt(static_cast<double>(options.head_dim))};
  const std::vector<Block> blocks = make_blocks(options.tokens, 0, options.block);

  Normals normals(options.seed);
  TraceWriter writer(target, model, run);
  for (int layer = 0; layer < model.num_layers; ++layer) {
    std::vector<Head> heads;
    for (int h = 0; h < options.heads; ++h) {
      heads.push_back({normals.row(options.head_dim).normalized(), normals.row(options.head_dim)});
    }
    writer.write_output_weight(layer, output_weight(options, model.hidden_size));
    std::vector<BlockOfStates> all;
    for (const Block& block : blocks) {
      BlockOfStates states = make_block(options, block, heads, normals);
      writer.write_states(layer, block.first, block.size(), all_of(states.queries),
                          all_of(states.keys), all_of(states.values));
      write_norms(writer, options, layer, block, states.values);
      if (options.own_layers) all.push_back(std::move(states));
    }
    if (options.own_layers) write_log_sums(writer, options, layer, blocks, all);
  }
  TokenTable tokens;
  for (int i = 0; i < options.tokens; ++i) {
    tokens.ids.push_back(i % model.vocab_size);
    tokens.text.push_back(i == 0 ? "<s>" : " w" + std::to_string(i));
  }
  writer.finish(run, tokens, blocks, {});
  if (options.layers > model.num_layers) repeat_layer(target, options.layers);
}

}  // namespace kvloupe::test
