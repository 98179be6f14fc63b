#include "tests/support/probe_trace.h"

#include <algorithm>
#include <random>
#include <span>

#include "analysis/trace/half.h"
#include "analysis/trace/trace_writer.h"

namespace kvloupe::test {

namespace {
using Random = std::mt19937_64;

Matrix normal(Random& random, Eigen::Index rows, Eigen::Index columns, float deviation,
              bool rounded) {
  std::normal_distribution<float> distribution(0.0F, deviation);
  Matrix result(rows, columns);
  for (float& x : result.reshaped()) {
    x = distribution(random);
    if (rounded) x = float_from_half(half_from_float(x));
  }
  return result;
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

void make_probe(const ProbeTraceOptions& options, ProbeTraceStates& states) {
  const SyntheticTraceOptions& trace = options.trace;
  Random random(trace.seed + 5);
  ProbeInfo& probe = states.probe;
  probe.kind = "repeat";
  probe.context_end = trace.prompt_length - trace.question;
  const auto any_id = [&] {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(trace.vocab_size));
  };
  for (int first = 0; first < probe.context_end; first += options.part) {
    const Block again{first, std::min(first + options.part, probe.context_end)};
    const int begin = probe.tokens();
    for (int i = 0; i < options.request + again.size(); ++i) probe.ids.push_back(any_id());
    probe.passes.push_back({{begin, probe.tokens()}, again});
  }
  const Eigen::Index count = probe.tokens(), d = trace.head_dim;
  for (int layer = 0; layer < trace.layers; ++layer) {
    states.query.emplace_back();
    states.key.emplace_back();
    states.input_norm.emplace_back();
    for (int head = 0; head < trace.query_heads; ++head) {
      states.query.back().push_back(normal(random, count, d, 2.0F, !trace.store_f32));
    }
    for (int head = 0; head < trace.heads; ++head) {
      states.key.back().push_back(normal(random, count, d, 1.0F, !trace.store_f32));
    }
    for (Eigen::Index i = 0; i < count; ++i) {
      states.input_norm.back().push_back(1.0F + static_cast<float>(random() % 100) / 50.0F);
    }
  }
}

TokenTable tokens_of(const SyntheticTraceOptions& options) {
  TokenTable tokens{.segment_names = {"context", "answer", "question"}};
  for (int i = 0; i < options.tokens(); ++i) {
    tokens.ids.push_back(i % options.vocab_size);
    const bool asks = i >= options.prompt_length - options.question;
    tokens.segment.push_back(i >= options.prompt_length ? 1 : asks ? 2 : 0);
  }
  return tokens;
}
}  // namespace

ProbeTraceStates write_probe_trace(const std::filesystem::path& target,
                                   const ProbeTraceOptions& options) {
  const SyntheticTraceOptions& trace = options.trace;
  ProbeTraceStates states;
  states.trace = make_synthetic_states(trace);
  make_probe(options, states);
  TraceWriterOptions writer_options;
  writer_options.store_f32 = trace.store_f32;
  writer_options.layers = trace.layer_attributes;
  TraceWriter writer(target, states.trace.model, states.trace.run, writer_options);
  const std::vector<Block> blocks = make_blocks(trace.prompt_length, trace.generated, trace.block);
  writer.write_probe(states.probe);
  for (int layer = 0; layer < trace.layers; ++layer) {
    writer.write_output_weight(layer, slab(states.trace.output_weight[layer], 0, trace.head_dim));
    for (const Block& block : blocks) {
      const int m = block.size();
      writer.write_states(layer, block.first, m, slab(states.trace.query[layer], block.first, m),
                          slab(states.trace.key[layer], block.first, m),
                          slab(states.trace.value[layer], block.first, m));
    }
    for (const ProbePass& pass : states.probe.passes) {
      const int first = pass.tokens.first, m = pass.tokens.size();
      const std::span<const float> norms = states.input_norm[layer];
      writer.write_probe_states(
          layer, first, m, slab(states.query[layer], first, m), slab(states.key[layer], first, m),
          norms.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(m)));
    }
  }
  writer.finish(states.trace.run, tokens_of(trace), blocks, {});
  return states;
}

}  // namespace kvloupe::test
