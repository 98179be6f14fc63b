#include "tests/naive/naive_probe.h"
#include "tests/naive/naive_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace kvloupe::naive {

namespace {
double logit(const LayerProbe& states, int query_head, const Matrix& queries, int query,
             const Matrix& keys, int key) {
  double sum = 0.0;
  for (int c = 0; c < states.model.head_dim; ++c) {
    sum += static_cast<double>(queries(query, c)) * static_cast<double>(keys(key, c));
  }
  const LogitRule rule = states.attention.of(query_head);
  const double scaled = rule.scale * sum;
  return rule.softcap > 0.0 ? rule.softcap * std::tanh(scaled / rule.softcap) : scaled;
}

/// Softmax of one query of a pass over these tokens of the context and the pass so far: [E], 0 for
/// the other tokens.
std::vector<double> row_of(const ProbeInfo& probe, const LayerProbe& states, const ProbePass& pass,
                           int query_head, int query, const std::vector<int>& tokens) {
  const int head = query_head / (states.model.num_heads / states.model.num_kv_heads);
  const int position = probe.context_end + query - pass.tokens.first;
  const auto seen = [&](int other) { return sees(states.model, position, other); };
  std::vector<double> row(probe.context_end, 0.0);
  double sum = 0.0;
  const LogitRule rule = states.attention.of(query_head);
  if (rule.has_sink()) sum += std::exp(rule.sink);
  for (const int token : tokens) {
    if (!seen(token)) continue;
    row[token] = std::exp(
        logit(states, query_head, states.queries[query_head], query, states.keys[head], token));
    sum += row[token];
  }
  for (int own = pass.tokens.first; own <= query; ++own) {
    if (!seen(probe.context_end + own - pass.tokens.first)) continue;
    sum += std::exp(
        logit(states, query_head, states.queries[query_head], query, states.own_keys[head], own));
  }
  for (double& weight : row) weight /= sum;
  return row;
}
}  // namespace

HeadScores kvzip(const ProbeInfo& probe, const LayerProbe& states, int sinks, bool keep,
                 bool plus) {
  HeadScores scores(states.model.num_kv_heads, std::vector<double>(probe.context_end, 0.0));
  const int group = states.model.num_heads / states.model.num_kv_heads;
  for (const ProbePass& pass : probe.passes) {
    std::vector<int> tokens;
    for (int token = 0; token < std::min(sinks, pass.context.first); ++token) {
      tokens.push_back(token);
    }
    for (int token = pass.context.first; token < pass.context.end; ++token) tokens.push_back(token);
    for (int query_head = 0; query_head < states.model.num_heads; ++query_head) {
      for (int query = pass.tokens.first; query < pass.tokens.end; ++query) {
        const std::vector<double> row = row_of(probe, states, pass, query_head, query, tokens);
        for (int token = pass.context.first; token < pass.context.end; ++token) {
          const double factor = plus ? static_cast<double>(states.out_norms[query_head][token]) /
                                           static_cast<double>(states.input_norms[query])
                                     : 1.0;
          double& score = scores[query_head / group][token];
          score = std::max(score, row[token] * factor);
        }
      }
    }
  }
  for (std::vector<double>& own : scores) {
    for (int token = 0; keep && token < std::min(sinks, probe.context_end); ++token) {
      own[token] = plus ? std::numeric_limits<double>::infinity() : 1.0;
    }
  }
  return scores;
}

HeadScores kvcompose(const ProbeInfo& probe, const LayerProbe& states, bool values, bool mean) {
  const int heads = states.model.num_kv_heads;
  const int group = states.model.num_heads / heads;
  HeadScores scores(heads, std::vector<double>(probe.context_end, 0.0));
  std::vector<int> tokens;
  for (int token = 0; token < probe.context_end; ++token) tokens.push_back(token);
  for (int query_head = 0; query_head < states.model.num_heads; ++query_head) {
    std::vector<double> most(probe.context_end, 0.0);
    for (const ProbePass& pass : probe.passes) {
      for (int query = pass.tokens.end - pass.context.size(); query < pass.tokens.end; ++query) {
        const std::vector<double> row = row_of(probe, states, pass, query_head, query, tokens);
        for (const int token : tokens) most[token] = std::max(most[token], row[token]);
      }
    }
    for (const int token : tokens) scores[query_head / group][token] += most[token] / group;
  }
  for (int head = 0; head < heads && values; ++head) {
    for (const int token : tokens) {
      double squares = 0.0;
      for (int c = 0; c < states.model.head_dim; ++c) {
        squares += std::pow(static_cast<double>(states.values[head](token, c)), 2);
      }
      scores[head][token] *= std::sqrt(squares);
    }
  }
  for (const int token : tokens) {
    double sum = 0.0;
    for (int head = 0; head < heads; ++head) sum += scores[head][token];
    for (int head = 0; head < heads && mean; ++head) scores[head][token] += sum / heads;
  }
  return scores;
}

std::vector<HeadScores> extended(std::vector<HeadScores> layers, int tokens) {
  double most = 0.0;
  bool above = false;
  for (const HeadScores& layer : layers) {
    for (const std::vector<double>& head : layer) {
      for (const double score : head) {
        above = above || std::isinf(score);
        if (!std::isinf(score)) most = std::max(most, score);
      }
    }
  }
  for (HeadScores& layer : layers) {
    for (std::vector<double>& head : layer) {
      for (double& score : head) score = std::isinf(score) ? most + 1.0 : score;
    }
  }
  most = std::max(above ? most + 1.0 : most, 1.0);
  for (HeadScores& layer : layers) {
    for (std::vector<double>& head : layer) head.resize(tokens, most);
  }
  return layers;
}

std::vector<std::vector<int>> places(const std::vector<HeadScores>& layers,
                                     const std::vector<int>& windows, int end, int each,
                                     bool composite) {
  const int heads = static_cast<int>(layers.front().size());
  const auto first = [&](std::size_t layer) {
    return windows[layer] > 0 ? std::max(end + 1 - windows[layer], 0) : 0;
  };
  std::vector<std::vector<int>> counts(layers.size(), std::vector<int>(heads, 0));
  if (!composite) {
    std::vector<std::tuple<double, int, int>> all;  // score, token, minus the place of the head
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      for (int head = 0; head < heads; ++head) {
        for (int token = first(layer); token < end; ++token) {
          all.emplace_back(layers[layer][head][token], token,
                           -(static_cast<int>(layer) * heads + head));
        }
      }
    }
    std::sort(all.rbegin(), all.rend());
    const std::size_t most = each * layers.size() * heads;
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
      const int at = -std::get<2>(all[i]);
      ++counts[at / heads][at % heads];
    }
    return counts;
  }
  std::vector<std::vector<double>> ranks;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    std::vector<double> mean(end - first(layer), 0.0);
    for (std::vector<double> own : layers[layer]) {
      own.assign(own.begin() + first(layer), own.begin() + end);
      std::sort(own.rbegin(), own.rend());
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / heads;
    }
    ranks.push_back(mean);
  }
  for (std::size_t i = 0; i < ranks[0].size(); ++i) {
    for (const std::vector<double>& layer : ranks) {
      if (i < layer.size()) ranks[0][i] = std::max(ranks[0][i], layer[i]);
    }
  }
  std::vector<std::tuple<double, int, int>> all;  // score, minus rank, minus layer
  for (std::size_t layer = 0; layer < ranks.size(); ++layer) {
    for (std::size_t i = 0; i < ranks[layer].size(); ++i) {
      all.emplace_back(ranks[layer][i], -static_cast<int>(i), -static_cast<int>(layer));
    }
  }
  std::sort(all.rbegin(), all.rend());
  for (std::size_t i = 0; i < std::min(each * layers.size(), all.size()); ++i) {
    for (int& count : counts[-std::get<2>(all[i])]) ++count;
  }
  return counts;
}

}  // namespace kvloupe::naive
