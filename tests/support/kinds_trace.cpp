#include "tests/support/kinds_trace.h"

#include <cstdint>

#include "analysis/trace/trace_writer.h"
#include "tests/support/made_layer.h"

namespace kvloupe::test {

namespace {
SyntheticTraceOptions kinds_options(int query_heads, int heads, int key_dim, int value_dim,
                                    std::uint64_t seed) {
  return SyntheticTraceOptions{.layers = 1,
                               .query_heads = query_heads,
                               .heads = heads,
                               .head_dim = key_dim,
                               .value_dim = value_dim,
                               .hidden_size = 12,
                               .prompt_length = kKindsPrompt,
                               .generated = kKindsGenerated,
                               .seed = seed};
}

std::vector<float> kinds_slab(const std::vector<Matrix>& heads, int first, int m) {
  std::vector<float> result;
  for (const Matrix& head : heads) {
    const float* begin = head.data() + first * head.cols();
    result.insert(result.end(), begin, begin + m * head.cols());
  }
  return result;
}
}  // namespace

std::vector<MadeLayer> made_layers() {
  std::vector<MadeLayer> layers(5);
  layers[0].attributes.kind = LayerKind::none;
  layers[0].attributes.mixer = "Mamba-2";
  layers[0].attributes.state_bytes = 4096;
  layers[1].made = make_synthetic_states(kinds_options(4, 2, 8, 0, 11));
  layers[2].made = make_synthetic_states(kinds_options(4, 1, 12, 8, 12));
  layers[2].made.value[0][0] = layers[2].made.key[0][0].leftCols(8);
  LayerAttributes& latent = layers[2].attributes;
  latent.kind = LayerKind::latent;
  latent.key_dim = 12;
  latent.value_dim = 8;
  latent.value_is_key_prefix = true;
  latent.rotary_start = 8;
  latent.rotary_dim = 4;
  latent.attention_scale = layers[2].made.run.attention_scale;
  layers[3].made = make_synthetic_states(kinds_options(6, 3, 6, 10, 13));
  LayerAttributes& wide = layers[3].attributes;
  wide.num_heads = 6;
  wide.num_kv_heads = 3;
  wide.key_dim = 6;
  wide.value_dim = 10;
  wide.gate = true;
  wide.attention_scale = layers[3].made.run.attention_scale;
  layers[4].made = make_synthetic_states(kinds_options(4, 2, 8, 0, 14));
  layers[4].made.key = layers[1].made.key;
  layers[4].made.value = layers[1].made.value;
  layers[4].attributes.kind = LayerKind::shared;
  layers[4].attributes.shares_with = 1;
  return layers;
}

void write_kinds_trace(const std::filesystem::path& target, const std::vector<MadeLayer>& layers) {
  const SyntheticStates plain = make_synthetic_states(kinds_options(4, 2, 8, 0, 11));
  ModelInfo model = plain.model;
  model.num_layers = static_cast<int>(layers.size());
  const RunInfo& run = plain.run;
  TraceWriterOptions options;
  options.store_f32 = true;
  for (const MadeLayer& layer : layers) options.layers.push_back(layer.attributes);
  TraceWriter writer(target, model, run, options);
  const std::vector<Block> blocks = make_blocks(kKindsPrompt, kKindsGenerated, 16);
  for (int l = 0; l < model.num_layers; ++l) {
    const MadeLayer& layer = layers[l];
    const LayerAttributes& said = layer.attributes;
    if (said.kind == LayerKind::none) continue;
    writer.write_output_weight(
        l, kinds_slab(layer.made.output_weight[0], 0, layer.made.model.value_width()));
    for (const Block& block : blocks) {
      const int m = block.size();
      const bool stores = said.kind != LayerKind::shared;
      const auto states = [&](const std::vector<Matrix>& heads, bool there) {
        return there ? kinds_slab(heads, block.first, m) : std::vector<float>();
      };
      writer.write_states(l, block.first, m, states(layer.made.query[0], true),
                          states(layer.made.key[0], stores),
                          states(layer.made.value[0], stores && !said.value_is_key_prefix));
      if (!said.gate) continue;
      std::vector<float> gate;
      for (int token = block.first; token < block.end; ++token) {
        for (int q = 0; q < *said.num_heads; ++q) {
          const Matrix one = made_gate(kKindsTokens, *said.value_dim, q);
          gate.insert(gate.end(), one.row(token).begin(), one.row(token).end());
        }
      }
      writer.write_gate(l, block.first, m, gate);
    }
  }
  TokenTable tokens;
  for (int i = 0; i < kKindsTokens; ++i) tokens.ids.push_back(i % 50);
  writer.finish(run, tokens, blocks, {});
}

}  // namespace kvloupe::test
