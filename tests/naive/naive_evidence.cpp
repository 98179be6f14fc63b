#include "tests/naive/naive_evidence.h"

#include <set>

#include "analysis/replay/record/layer_states.h"
#include "tests/naive/naive_mask.h"
#include "tests/naive/naive_replay.h"
#include "tests/naive/naive_roles.h"

namespace kvloupe::naive {

namespace {
/// [Hk][query]: the tokens that each query finds in the cache.
std::vector<std::vector<std::set<int>>> found(NaiveReplay replay, const std::vector<Block>& blocks,
                                              const std::vector<int>& queries) {
  const auto heads = static_cast<std::size_t>(replay.model().num_kv_heads);
  std::vector<std::vector<std::set<int>>> result(heads);
  std::vector<std::set<int>> kept(heads);
  for (const Block& block : blocks) {
    for (const int query : queries) {
      if (query < block.first || query >= block.end) continue;
      for (std::size_t head = 0; head < heads; ++head) {
        std::set<int> own = kept[head];
        for (int token = block.first; token <= query; ++token) own.insert(token);
        result[head].push_back(own);
      }
    }
    const std::vector<HeadStep> steps = replay.step(block);
    for (std::size_t head = 0; head < heads; ++head) kept[head] = steps[head].retained;
  }
  return result;
}

/// A share of pairs.
struct Share {
  double lost = 0.0, all = 0.0;
  double value() const { return lost / all; }
};
}  // namespace

NaiveEvidence evidence(const Trace& trace, const std::string& policy, const std::string& uniform,
                       int budget, const std::vector<Block>& blocks, const std::vector<int>& tokens,
                       const std::vector<int>& queries) {
  NaiveEvidence result;
  // Whether any head of any layer sees a pair, and holds it.
  std::set<std::pair<int, int>> seen_anywhere, held_anywhere;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const LayerStates states = load_layer_states(trace, layer);
    const ModelInfo model = trace.layer_model(layer);
    const LayerAttention attention = trace.attention(layer);
    const auto own =
        found({states, model, attention, layer, parse_policy(policy), budget}, blocks, queries);
    const auto same =
        found({states, model, attention, layer, parse_policy(uniform), budget}, blocks, queries);
    const auto group = static_cast<std::size_t>(model.num_heads / model.num_kv_heads);
    Share of_layer;
    for (std::size_t q = 0; q < queries.size(); ++q) {
      for (const int token : tokens) {
        if (!sees(model, queries[q], token)) continue;
        seen_anywhere.insert({queries[q], token});
        bool held = false;
        for (const auto& head : own) held = held || head[q].contains(token);
        if (held) held_anywhere.insert({queries[q], token});
        of_layer.all += 1.0;
        of_layer.lost += held ? 0.0 : 1.0;
      }
    }
    result.layer_evicted.push_back(of_layer.value());
    for (std::size_t head = 0; head < own.size(); ++head) {
      NaiveEvidenceHead one;
      for (std::size_t g = 0; g < group; ++g) {
        const auto rows = full_attention(states.queries[head * group + g], states.keys[head],
                                         trace.run().attention_scale, model.sliding_window);
        one.attention += mean_read(rows, queries, tokens) / static_cast<double>(group);
      }
      for (const int query : queries) {
        double evidence = 0.0, all = 0.0;
        for (int token = 0; token <= query; ++token) all += sees(model, query, token) ? 1.0 : 0.0;
        for (const int token : tokens) evidence += sees(model, query, token) ? 1.0 : 0.0;
        one.even += evidence / all / static_cast<double>(queries.size());
      }
      double pairs = 0.0;
      for (std::size_t q = 0; q < queries.size(); ++q) {
        for (const int token : tokens) {
          if (!sees(model, queries[q], token)) continue;
          pairs += 1.0;
          if (own[head][q].contains(token)) {
            one.kept += 1.0;
          } else if (one.attention < one.even) {
            one.unseen += 1.0;
          } else if (same[head][q].contains(token)) {
            one.cut += 1.0;
          } else {
            one.misranked += 1.0;
          }
        }
      }
      for (double* share : {&one.kept, &one.unseen, &one.misranked, &one.cut}) *share /= pairs;
      result.heads.push_back(one);
    }
  }
  result.evicted =
      1.0 - static_cast<double>(held_anywhere.size()) / static_cast<double>(seen_anywhere.size());
  return result;
}

}  // namespace kvloupe::naive
