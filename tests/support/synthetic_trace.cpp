#include "tests/support/synthetic_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <span>

#include "analysis/policy/kit/spec.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/half.h"
#include "analysis/trace/trace_writer.h"

namespace kvloupe::test {

namespace {
using Random = std::mt19937_64;

Matrix normal(Random& random, Eigen::Index rows, Eigen::Index columns, float deviation = 1.0F) {
  std::normal_distribution<float> distribution(0.0F, deviation);
  Matrix result(rows, columns);
  for (float& x : result.reshaped()) x = distribution(random);
  return result;
}

void round_to_half(std::vector<std::vector<Matrix>>& layers) {
  for (std::vector<Matrix>& heads : layers) {
    for (Matrix& m : heads)
      m = m.unaryExpr([](float x) { return float_from_half(half_from_float(x)); });
  }
}

/// Rows [first, first + m) of every head, one after the other.
std::vector<float> slab(const std::vector<Matrix>& heads, int first, int m) {
  std::vector<float> result;
  for (const Matrix& head : heads) {
    const float* begin = head.data() + first * head.cols();
    result.insert(result.end(), begin, begin + m * head.cols());
  }
  return result;
}

RunInfo make_run(const SyntheticTraceOptions& options) {
  return RunInfo{.block_size = options.block,
                 .prompt_length = options.prompt_length,
                 .generated = options.generated,
                 .threads = 1,
                 .seed = options.seed,
                 .attention_scale = 1.0 / std::sqrt(static_cast<double>(options.head_dim))};
}

ModelInfo make_model(const SyntheticTraceOptions& options) {
  ModelInfo model{.name = "synthetic",
                  .architecture = "SyntheticForCausalLM",
                  .num_layers = options.layers,
                  .num_heads = options.query_heads,
                  .num_kv_heads = options.heads,
                  .head_dim = options.head_dim,
                  .value_dim = options.value_dim,
                  .hidden_size = options.hidden_size,
                  .vocab_size = options.vocab_size,
                  .sliding_window = options.sliding_window};
  if (options.chunk_size > 0 && options.chunk_size < options.tokens()) {
    model.chunk_size = options.chunk_size;
    model.chunked_tokens = options.tokens();
  }
  model.rope_scaling = "null";
  model.config = "{}";
  return model;
}

/// Causal softmax rows [Hq,m,n] of a block, within the window or chunk, and their log-sum-exp
/// [Hq,m].
void attend(const SyntheticStates& states, int layer, const Block& block,
            std::vector<float>& attention, std::vector<float>& logsumexp) {
  for (int query_head = 0; query_head < states.model.num_heads; ++query_head) {
    const auto l = static_cast<std::size_t>(layer), q = static_cast<std::size_t>(query_head);
    const Matrix& keys = states.key[l][states.model.head_of(query_head)];
    for (int row = block.first; row < block.end; ++row) {
      Eigen::VectorXf logits = keys.topRows(row + 1) * states.query[l][q].row(row).transpose() *
                               static_cast<float>(states.run.attention_scale);
      logits.head(first_seen(row, states.model.reach())).setConstant(-1e30F);
      const float largest = logits.maxCoeff();
      const float sum = (logits.array() - largest).exp().sum();
      logsumexp.push_back(largest + std::log(sum));
      for (int i = 0; i < block.end; ++i) {
        attention.push_back(i <= row ? std::exp(logits[i] - logsumexp.back()) : 0.0F);
      }
    }
  }
}

TokenTable make_tokens(const SyntheticTraceOptions& options, Random& random) {
  TokenTable tokens;
  for (int i = 0; i < options.tokens(); ++i) {
    tokens.ids.push_back(
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(options.vocab_size)));
    if (!options.text) continue;
    tokens.text.push_back(i == 0 ? "<s>" : " w" + std::to_string(i) + (i % 7 == 3 ? "é" : ""));
    const bool asks = i >= options.prompt_length - options.question;
    tokens.segment.push_back(i >= options.prompt_length ? 1 : asks ? 2 : 0);
  }
  if (options.text) tokens.segment_names = {"context", "answer"};
  if (options.text && options.question > 0) tokens.segment_names.emplace_back("question");
  return tokens;
}
/// The part of a closed-loop trace beside its states.
struct ClosedLoop {
  std::string policy;
  int budget = 0;
  std::vector<std::vector<std::int32_t>> evicted_at;  // [L] of [Hk,T]
};

/// The trace of these states; of a closed loop where one is given.
void write_states(const std::filesystem::path& target, const SyntheticTraceOptions& options,
                  const SyntheticStates& states, const ClosedLoop* closed);
}  // namespace

SyntheticStates make_synthetic_states(const SyntheticTraceOptions& options) {
  SyntheticStates states;
  states.model = make_model(options);
  states.run = make_run(options);
  Random random(options.seed);
  const Eigen::Index count = options.tokens(), d = options.head_dim;
  const float key_length = std::sqrt(static_cast<float>(d));
  for (int layer = 0; layer < options.layers; ++layer) {
    std::vector<Matrix> queries, keys, values, weights;
    std::vector<Eigen::RowVectorXf> sinks;  // the direction every query of a head has in common
    for (int head = 0; head < options.heads; ++head) {
      Matrix key;
      if (options.clusters > 0) {
        const Matrix centres = normal(random, options.clusters, d);
        key = normal(random, count, d, 0.3F);
        for (Eigen::Index i = 0; i < count; ++i) {
          key.row(i) += centres.row(
              static_cast<Eigen::Index>(random() % static_cast<std::uint64_t>(options.clusters)));
        }
      } else {
        key = normal(random, count, d);
      }
      Matrix value = normal(random, count, states.model.value_width());
      sinks.push_back(normal(random, 1, d).row(0).normalized());
      if (options.sink_logit > 0.0F) {
        key.row(0) = sinks.back() * key_length;
        value.row(0) *= 0.1F;
      }
      keys.push_back(std::move(key));
      values.push_back(std::move(value));
    }
    for (int query_head = 0; query_head < options.query_heads; ++query_head) {
      Matrix query = normal(random, count, d);
      const auto head = static_cast<std::size_t>(states.model.head_of(query_head));
      query.rowwise() += sinks[head] * options.sink_logit;  // · key_length · 1/√d
      queries.push_back(std::move(query));
      weights.push_back(normal(random, states.model.value_width(), options.hidden_size, 0.3F));
    }
    states.query.push_back(std::move(queries));
    states.key.push_back(std::move(keys));
    states.value.push_back(std::move(values));
    states.output_weight.push_back(std::move(weights));
  }
  if (options.residual_change) {
    Random own(options.seed + 2000);  // one of its own: other numbers do not depend on it
    for (int layer = 0; layer < options.layers; ++layer) {
      auto& changes = states.residual_change.emplace_back();
      for (int token = 0; token < options.tokens(); ++token) {
        changes.push_back(token == 0 ? 0.0F : 5.0F + 0.001F * static_cast<float>(own() % 10000));
      }
    }
  }
  if (!options.store_f32) {
    round_to_half(states.query);
    round_to_half(states.key);
    round_to_half(states.value);
    round_to_half(states.output_weight);
  }
  return states;
}

SyntheticStates write_synthetic_trace(const std::filesystem::path& target,
                                      const SyntheticTraceOptions& options) {
  SyntheticStates states = make_synthetic_states(options);
  write_states(target, options, states, nullptr);
  return states;
}

std::shared_ptr<const Trace> open_synthetic_trace(const std::filesystem::path& target,
                                                  const SyntheticTraceOptions& options) {
  write_synthetic_trace(target, options);
  return std::make_shared<const Trace>(target);
}

void write_synthetic_closed_loop(const std::filesystem::path& target,
                                 const SyntheticTraceOptions& options, const std::string& policy,
                                 int budget) {
  SyntheticStates states = make_synthetic_states(options);
  Random random(options.seed + 17);
  for (std::size_t layer = 1; layer < states.key.size(); ++layer) {
    const float noise = 0.2F * static_cast<float>(layer);
    for (auto* all : {&states.query, &states.key, &states.value}) {
      for (Matrix& m : (*all)[layer]) m += normal(random, m.rows(), m.cols(), noise);
    }
  }
  const std::filesystem::path open = target.string() + ".open.h5";
  write_states(open, options, states, nullptr);
  ClosedLoop closed{parse_policy(policy).text(), budget, {}};
  {
    const Trace trace(open);
    ReplayRequest request{.policy = parse_policy(policy), .budget = budget, .metrics = false};
    const Replay made = replay(trace, request, unwatched);
    for (int layer = 0; layer < options.layers; ++layer) {
      std::vector<std::int32_t> all;
      for (int head = 0; head < options.heads; ++head) {
        const auto& own = made.find(layer, head)->evicted_at;
        all.insert(all.end(), own.begin(), own.end());
      }
      closed.evicted_at.push_back(std::move(all));
    }
  }
  std::filesystem::remove(open);
  write_states(target, options, states, &closed);
}

namespace {
/// A last norm of made-up residual streams, whose sizes differ from token to token.
void write_last_norm(const SyntheticTraceOptions& options, const std::vector<Block>& blocks,
                     TraceWriter& writer) {
  Random random(options.seed + 1000);  // one of its own: other numbers do not depend on it
  const Matrix weight = (normal(random, 1, options.hidden_size, 0.3F).array() + 1.0F).matrix();
  writer.write_final_norm({weight.data(), static_cast<std::size_t>(weight.size())});
  for (const Block& block : blocks) {
    Matrix hidden = normal(random, block.size(), options.hidden_size);
    std::vector<float> rms;
    for (Eigen::Index i = 0; i < hidden.rows(); ++i) {
      hidden.row(i) *= static_cast<float>(2 + (block.first + i) % 7);
      rms.push_back(std::sqrt(hidden.row(i).squaredNorm() / static_cast<float>(hidden.cols())));
      hidden.row(i) = hidden.row(i).cwiseProduct(weight) / rms.back();
    }
    writer.write_final_hidden(block.first, block.size(),
                              {hidden.data(), static_cast<std::size_t>(hidden.size())});
    writer.write_final_rms(block.first, block.size(), rms);
  }
}

/// The rows of the head that belong to these ids.
void write_head_rows(const Matrix& head, const std::vector<std::int32_t>& ids,
                     TraceWriter& writer) {
  const std::set<std::int32_t> different(ids.begin(), ids.end());
  std::vector<float> rows;
  for (const std::int32_t id : different) {
    rows.insert(rows.end(), head.row(id).begin(), head.row(id).end());
  }
  writer.write_lm_head_rows(std::vector<std::int32_t>(different.begin(), different.end()), rows);
}

void write_states(const std::filesystem::path& target, const SyntheticTraceOptions& options,
                  const SyntheticStates& states, const ClosedLoop* closed) {
  RunInfo run = states.run;
  if (closed != nullptr) {
    run.policy = closed->policy;
    run.budget = closed->budget;
  }
  TraceWriterOptions writer_options;
  writer_options.store_f32 = options.store_f32;
  writer_options.store_attention = options.attention;
  writer_options.top_k = 3;
  writer_options.layers = options.layer_attributes;
  if (options.chunk_size > 0) {
    writer_options.layers.resize(static_cast<std::size_t>(options.layers));
    for (LayerAttributes& layer : writer_options.layers) layer.chunk_size = options.chunk_size;
  }
  TraceWriter writer(target, states.model, run, writer_options);
  Random random(options.seed + 1);
  const std::vector<Block> blocks =
      make_blocks(options.prompt_length, options.generated, options.block);
  for (std::size_t layer = 0; layer < states.residual_change.size(); ++layer) {
    const std::span<const float> changes = states.residual_change[layer];
    for (const Block& block : blocks) {
      writer.write_residual_change(static_cast<int>(layer), block.first, block.size(),
                                   changes.subspan(static_cast<std::size_t>(block.first),
                                                   static_cast<std::size_t>(block.size())));
    }
  }
  for (int layer = 0; layer < options.layers; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    if (l < options.layer_attributes.size() &&
        options.layer_attributes[l].kind == LayerKind::none) {
      continue;  // it has no states
    }
    if (options.output_weight) {
      writer.write_output_weight(layer,
                                 slab(states.output_weight[l], 0, states.model.value_width()));
    }
    for (const Block& block : blocks) {
      const int m = block.size();
      writer.write_states(layer, block.first, m, slab(states.query[l], block.first, m),
                          slab(states.key[l], block.first, m),
                          slab(states.value[l], block.first, m));
      if (options.attention || options.logsumexp) {
        std::vector<float> attention, logsumexp;
        attend(states, layer, block, attention, logsumexp);
        if (options.attention) writer.write_attention(layer, block.first, m, attention);
        if (options.logsumexp) writer.write_attention_logsumexp(layer, block.first, m, logsumexp);
      }
      if (options.value_out_norms && options.output_weight) {
        std::vector<float> l1, l2;
        for (int query_head = 0; query_head < options.query_heads; ++query_head) {
          const auto h = static_cast<std::size_t>(states.model.head_of(query_head));
          const Matrix outputs =
              states.value[l][h].middleRows(block.first, m) * states.output_weight[l][query_head];
          for (int i = 0; i < m; ++i) {
            l1.push_back(outputs.row(i).lpNorm<1>());
            l2.push_back(outputs.row(i).norm());
          }
        }
        writer.write_value_out_norms(layer, block.first, m, l1, l2);
      }
    }
    if (closed != nullptr) writer.write_evicted_at(layer, closed->evicted_at[l]);
    if (options.evicted_at) {
      std::vector<std::int32_t> steps;
      const auto last = static_cast<std::int32_t>(blocks.size()) - 1;
      for (int head = 0; head < options.heads; ++head) {
        for (std::int32_t step = 0; step <= last; ++step) {
          for (int i = 0; i < blocks[step].size(); ++i) {
            const auto later = static_cast<std::int32_t>(random() % 4);
            steps.push_back(later == 3 ? -1 : std::min(step + later, last));
          }
        }
      }
      writer.write_evicted_at(layer, steps);
      writer.write_merges(
          layer, std::vector<MergedEntry>{{1, 0, 3, 2, 0.25F},
                                          {1, 0, 3, 3, 0.75F},
                                          {0, last, 1, 0, 1.5F + static_cast<float>(layer)}});
    }
  }
  if (options.predictions) {
    for (const Block& block : blocks) {
      std::vector<std::int32_t> ids;
      std::vector<float> logprobs;
      for (int i = 0; i < block.size() * writer_options.top_k; ++i) {
        ids.push_back(
            static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(options.vocab_size)));
        if (closed != nullptr && i % 2 == 0) ids.back() = (ids.back() + 1) % options.vocab_size;
        logprobs.push_back(-1.0F - static_cast<float>(i % writer_options.top_k));
      }
      writer.write_predictions(block.first, block.size(), ids, logprobs);
    }
  }
  Matrix head;
  if (options.lm_head || options.lm_head_rows) {
    head = normal(random, options.vocab_size, options.hidden_size);
    if (options.lm_head) writer.write_lm_head({head.data(), static_cast<std::size_t>(head.size())});
    if (options.predictions) write_last_norm(options, blocks, writer);
  }
  if (options.vocabulary) {
    std::vector<std::string> texts;
    for (int id = 0; id < options.vocab_size; ++id) {
      texts.push_back(id % 7 == 3 ? "" : " wörd" + std::to_string(id));
    }
    writer.write_vocabulary(texts);
  }
  std::vector<float> loss;
  if (options.predictions) {
    loss.assign(static_cast<std::size_t>(options.tokens()), closed != nullptr ? 2.625F : 2.5F);
    loss.back() = std::numeric_limits<float>::quiet_NaN();
  }
  const TokenTable tokens = make_tokens(options, random);
  if (options.lm_head_rows) write_head_rows(head, tokens.ids, writer);
  writer.finish(run, tokens, blocks, loss);
}
}  // namespace

}  // namespace kvloupe::test
