#include "tests/support/made_replays.h"

#include <gtest/gtest.h>

#include "tests/naive/naive_roles.h"

namespace kvloupe::test {

const Trace& MadeTrace::trace() {
  if (trace_ == nullptr) {
    states_ = write_synthetic_trace(folder_ / "trace.h5", options_);
    trace_ = std::make_shared<Trace>(folder_ / "trace.h5");
  }
  return *trace_;
}

Replay MadeTrace::run(const std::string& spec, int budget, ReplayRequest rest) {
  rest.policy = parse_policy(spec);
  rest.budget = budget;
  return replay(trace(), rest, unwatched);
}

const std::vector<std::vector<double>>& MadeTrace::attention_of(int layer, int query_head) {
  std::vector<std::vector<double>>& rows = attention_[{layer, query_head}];
  if (rows.empty()) {
    rows = naive::full_attention(states_.query[layer][query_head],
                                 states_.key[layer][states_.model.head_of(query_head)],
                                 states_.run.attention_scale, options_.sliding_window);
  }
  return rows;
}

MadeLayerReplays::MadeLayerReplays(const SyntheticTraceOptions& options)
    : options_(options), made_(make_synthetic_states(options)), states_(made_layer(made_, 0)) {
  context_.model = made_.model;
  context_.attention = made_.run.attention_scale;
}

Replay MadeLayerReplays::run(const std::string& spec, int budget, int block) const {
  const PolicySpec policy = parse_policy(spec);
  Replay result;
  result.policy = policy.text();
  result.budget = budget;
  result.block = block;
  result.blocks = make_blocks(options_.prompt_length, options_.generated, block);
  LayerReplayInput input = {states_, result.blocks, policy, context_, metrics_, scores_head_};
  input.context.budget = budget;
  input.context.output_weights = states_.output_weights;
  input.acts_until = acts_until_;
  result.heads = replay_layer(input, unwatched);
  return result;
}

naive::Comparison MadeLayerReplays::compared(const Replay& fast) const {
  return naive::compare(
      fast, context_.layer, states_, context_.model, context_.attention, nullptr,
      context_.prompt_length,
      context_.structural == nullptr ? std::vector<char>{} : *context_.structural);
}

void expect_same_sets(const Replay& a, const Replay& b, const std::string& where) {
  ASSERT_EQ(a.heads.size(), b.heads.size()) << where;
  for (std::size_t head = 0; head < a.heads.size(); ++head) {
    EXPECT_EQ(a.heads[head].evicted_at, b.heads[head].evicted_at) << where << ", head " << head;
  }
}

std::string json_of(const Replay& replay, const ReplayJsonOptions& options) {
  std::string text;
  write_replay_json(replay, "trace.h5", options, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace kvloupe::test
