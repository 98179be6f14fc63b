#include "analysis/replay/restore.h"

#include "analysis/base/core/error.h"
#include "analysis/math/attention.h"
#include "analysis/math/perturbation.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/record/head_states.h"

namespace kvloupe {

namespace {
/// A query and the step in which it comes.
struct RestoreAsking {
  int token = 0;
  int step = 0;
};

std::vector<RestoreAsking> asking(const std::vector<int>& queries,
                                  const std::vector<Block>& blocks) {
  std::vector<RestoreAsking> result;
  std::size_t step = 0;
  for (const int token : queries) {
    while (step < blocks.size() && blocks[step].end <= token) ++step;
    if (step < blocks.size()) result.push_back({token, static_cast<int>(step)});
  }
  return result;
}

/// Whether the head's cache has the token when the query comes.
bool there(const HeadReplay& head, int token, const RestoreAsking& query) {
  const std::int32_t left = head.evicted_at[static_cast<std::size_t>(token)];
  return left < 0 || left >= query.step;
}

/// o'' − o' of one query head [d]: the same logits, normalised over the present entries, and over
/// these and the lost tokens.
Eigen::VectorXd output_change(const std::vector<float>& logits, const std::vector<char>& holds,
                              const std::vector<char>& restored, const MatrixView& values,
                              double sink) {
  std::vector<float> before, after;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (holds[i] != 0) before.push_back(logits[i]);
    if (restored[i] != 0) after.push_back(logits[i]);
  }
  const std::vector<double> was = softmax(before, sink);
  const std::vector<double> is = softmax(after, sink);
  Eigen::VectorXd change = Eigen::VectorXd::Zero(values.cols());
  std::size_t b = 0, a = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double weight = 0.0;
    if (restored[i] != 0) weight += is[a++];
    if (holds[i] != 0) weight -= was[b++];
    if (weight == 0.0) continue;
    change += weight * values.row(static_cast<Eigen::Index>(i)).cast<double>().transpose();
  }
  return change;
}

RestoredHead restore(const Trace& trace, const HeadReplay& head, const LayerStates& states,
                     const std::vector<RestoreAsking>& queries, const std::vector<int>& tokens,
                     const Eigen::MatrixXd* effects, Progress& progress) {
  RestoredHead result{.layer = head.layer, .head = head.head};
  if (queries.empty() || states.output_weights.empty()) return result;
  const Reach reach = trace.reach(head.layer);
  const int group = trace.layer_model(head.layer).group_size();
  const LayerAttention attention = trace.attention(head.layer);
  const MatrixView keys = view(states.keys[static_cast<std::size_t>(head.head)]);
  const MatrixView values = view(states.values[static_cast<std::size_t>(head.head)]);
  double change = 0.0, effect = 0.0;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    progress.check();
    const RestoreAsking& query = queries[i];
    const int first = first_seen(query.token, reach);
    const Eigen::Index seen = query.token + 1 - first;
    std::vector<char> holds(static_cast<std::size_t>(seen));
    for (std::size_t row = 0; row < holds.size(); ++row) {
      holds[row] = there(head, first + static_cast<int>(row), query) ? 1 : 0;
    }
    std::vector<char> restored = holds;
    for (const int token : tokens) {
      if (token >= first && token <= query.token) {
        restored[static_cast<std::size_t>(token - first)] = 1;
      }
    }
    if (restored == holds) continue;
    Eigen::VectorXd moved = Eigen::VectorXd::Zero(trace.model().hidden_size);
    for (int g = 0; g < group; ++g) {
      const auto query_head = static_cast<std::size_t>(head.head * group + g);
      const LogitRule rule = attention.of(static_cast<int>(query_head));
      const auto asked = states.queries[query_head].row(query.token);
      const std::vector<float> logits = attention_logits(
          {asked.data(), static_cast<std::size_t>(asked.size())}, rows(keys, first, seen), rule);
      Eigen::VectorXd output =
          output_change(logits, holds, restored, rows(values, first, seen), rule.sink);
      const std::span<const float> gate = states.gate(static_cast<int>(query_head), query.token);
      for (std::size_t j = 0; j < gate.size(); ++j) {
        output[static_cast<Eigen::Index>(j)] *= static_cast<double>(gate[j]);
      }
      moved += states.output_weights[query_head].apply(output);
    }
    change += moved.norm();
    if (effects != nullptr) {
      effect += effects->row(static_cast<Eigen::Index>(i)).dot(moved.transpose());
    }
  }
  const auto count = static_cast<double>(queries.size());
  result.change = change / count;
  if (effects != nullptr) result.effect = effect / count;
  return result;
}
}  // namespace

std::vector<int> restoring_queries(const Trace& trace, const Replay& replay) {
  const int first_step = replay.blocks.empty() ? trace.length() : replay.blocks.front().end;
  return asked_queries(trace, asked_first(trace.tokens(), trace.run()), first_step);
}

std::vector<RestoredHead> restored_heads(const Trace& trace, const Replay& replay,
                                         const std::vector<int>& tokens, const AskOptions& options,
                                         Progress& progress, const Eigen::MatrixXd* effects) {
  for (const int token : tokens) {
    if (token >= 0 && token < trace.length()) continue;
    throw UsageError("token " + std::to_string(token) + ": the trace has tokens 0 to " +
                     std::to_string(trace.length() - 1));
  }
  const std::vector<int> asked = restoring_queries(trace, replay);
  const std::vector<RestoreAsking> queries = asking(asked, replay.blocks);
  Eigen::MatrixXd gradients;
  if (effects == nullptr) {
    gradients = next_token_gradients(trace, asked);
    if (gradients.size() > 0) effects = &gradients;
  }
  std::vector<RestoredHead> result(replay.heads.size());
  std::vector<std::pair<std::size_t, std::size_t>> layers;  // [first, end) of the replay's heads
  for (std::size_t i = 0; i < replay.heads.size(); ++i) {
    if (layers.empty() || replay.heads[layers.back().first].layer != replay.heads[i].layer) {
      layers.emplace_back(i, i);
    }
    layers.back().second = i + 1;
  }
  StateParts parts{.value_norms = false};
  progress.set_total(static_cast<long>(layers.size()));
  progress.count("layers", std::ssize(layers));
  LayerLoop loop{options.threads, options.background};
  loop.most_at_once = layers_at_once(layer_bytes(trace, parts), kLargeLayer);
  for_layers(layers.size(), loop, [&](std::size_t index, const HeadLoop& for_heads) {
    progress.check();
    const auto [first, end] = layers[index];
    const auto states =
        layer_states(options.states, trace, replay.heads[first].layer, parts, progress);
    for_heads(static_cast<int>(end - first), [&, begin = first](int i) {
      const std::size_t place = begin + static_cast<std::size_t>(i);
      result[place] =
          restore(trace, replay.heads[place], *states, queries, tokens, effects, progress);
    });
    progress.advance();
  });
  return result;
}

}  // namespace kvloupe
