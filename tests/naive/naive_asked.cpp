#include "tests/naive/naive_asked.h"

#include <cmath>
#include <map>
#include <set>

#include "analysis/policy/kit/spec.h"
#include "tests/naive/naive_mask.h"
#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

namespace {
using Row = std::vector<double>;

/// An entry of a cache.
struct Entry {
  Row key, value;
  double log_size = 0.0;
};

Row row_of(const Matrix& matrix, int token) {
  Row row;
  for (int c = 0; c < matrix.cols(); ++c) row.push_back(matrix(token, c));
  return row;
}

/// Softmax attention of one query over entries, and its output.
struct Attended {
  std::map<int, double> attention;
  Row output;
};

Attended attend(const Row& query, const std::map<int, Entry>& entries, const LogitRule& rule,
                bool sink) {
  Attended result;
  double sum = sink ? std::exp(rule.sink) : 0.0;
  for (const auto& [token, entry] : entries) {
    double product = 0.0;
    for (std::size_t c = 0; c < query.size(); ++c) product += query[c] * entry.key[c];
    sum += result.attention[token] = std::exp(rule.logit(product) + entry.log_size);
  }
  result.output.assign(entries.empty() ? 0 : entries.begin()->second.value.size(), 0.0);
  for (const auto& [token, entry] : entries) {
    const double weight = result.attention[token] /= sum;
    for (std::size_t c = 0; c < result.output.size(); ++c)
      result.output[c] += weight * entry.value[c];
  }
  return result;
}

double norm_l1(const Row& value, const OutputWeight& weight) {
  double norm = 0.0;
  for (Eigen::Index column = 0; column < weight.cols(); ++column) {
    double sum = 0.0;
    for (std::size_t c = 0; c < value.size(); ++c) {
      sum += value[c] * static_cast<double>(weight(static_cast<Eigen::Index>(c), column));
    }
    norm += std::abs(sum);
  }
  return norm;
}
}  // namespace

std::vector<NaiveAsked> asked(const LayerStates& states, const ModelInfo& model,
                              const LayerAttention& attention, int layer, const Replay& fast,
                              const std::vector<int>& queries) {
  NaiveReplay replay(states, model, attention, layer, parse_policy(fast.policy), fast.budget);
  const int heads = model.num_kv_heads;
  const int group = model.num_heads / heads;
  std::vector<NaiveAsked> result(static_cast<std::size_t>(heads));
  for (NaiveAsked& one : result) {
    one.output.assign(queries.size(), Row(static_cast<std::size_t>(model.hidden_size), 0.0));
    one.change = one.output;
  }
  std::vector<std::map<int, Entry>> caches(static_cast<std::size_t>(heads));
  std::vector<bool> merged(static_cast<std::size_t>(heads), false);
  const double rows = static_cast<double>(queries.size()) * group;
  for (std::size_t step = 0; step < fast.blocks.size(); ++step) {
    const Block block = fast.blocks[step];
    for (int head = 0; head < heads; ++head) {
      for (int token = block.first; token < block.end; ++token) {
        caches[head][token] = {row_of(states.keys[head], token),
                               row_of(states.values[head], token)};
      }
      for (std::size_t at = 0; at < queries.size(); ++at) {
        const int query = queries[at];
        if (query < block.first || query >= block.end) continue;
        std::map<int, Entry> all, found;
        for (int token = 0; token <= query; ++token) {
          if (!sees(model, query, token)) continue;
          all[token] = {row_of(states.keys[head], token), row_of(states.values[head], token)};
          if (caches[head].count(token) > 0) found[token] = caches[head][token];
        }
        for (int i = 0; i < group; ++i) {
          const int query_head = head * group + i;
          const LogitRule rule = attention.of(query_head);
          const bool sink = !attention.sink_logits.empty();
          const Row asks = row_of(states.queries[query_head], query);
          // With a gate every output is multiplied by it: that of an entry alone, too.
          const auto gated = [&](Row value) {
            for (std::size_t c = 0; c < value.size() && !states.gates.empty(); ++c)
              value[c] *= static_cast<double>(
                  states.gates[query_head](query, static_cast<Eigen::Index>(c)));
            return value;
          };
          Attended full = attend(asks, all, rule, sink);
          Attended cut = attend(asks, found, rule, sink);
          full.output = gated(full.output);
          cut.output = gated(cut.output);
          double kept = sink ? 1.0 : 0.0;
          if (sink) {
            for (const auto& [token, weight] : full.attention) kept -= weight;
          }
          for (const auto& [token, weight] : full.attention) {
            if (found.count(token) > 0) kept += weight;
          }
          result[head].kept += kept / rows;
          Row moved;
          for (std::size_t c = 0; c < full.output.size(); ++c) {
            moved.push_back(cut.output[c] - full.output[c]);
            result[head].error += moved[c] * moved[c];
            result[head].norm += full.output[c] * full.output[c];
          }
          double all_norms = 0.0, kept_norms = 0.0;
          for (const auto& [token, weight] : full.attention) {
            const double norm =
                weight * norm_l1(gated(all[token].value), states.output_weights[query_head]);
            all_norms += norm;
            if (found.count(token) > 0) kept_norms += norm;
          }
          // θ = C − (2 − 1/S) Σ over kept.
          result[head].theta +=
              merged[head] ? std::nan("") : (all_norms - (2.0 - 1.0 / kept) * kept_norms) / rows;
          for (int column = 0; column < model.hidden_size; ++column) {
            double was = 0.0, changed = 0.0;
            for (int c = 0; c < model.value_width(); ++c) {
              const auto w = static_cast<double>(states.output_weights[query_head](c, column));
              was += full.output[c] * w;
              changed += moved[c] * w;
            }
            result[head].l1 += std::abs(changed) / rows;
            result[head].output[at][column] += was;
            result[head].change[at][column] += changed;
          }
        }
      }
    }
    const std::vector<HeadStep> decided = replay.step(block);
    for (int head = 0; head < heads; ++head) {
      const HeadReplay& own = *fast.find(layer, head);
      const std::vector<std::int32_t> kept = fast.retained_at(own, static_cast<int>(step));
      const std::set<int> retained(kept.begin(), kept.end());
      if (retained != decided[head].retained) replay.adopt(head, retained);
      for (const NaiveMerge& merge : decided[head].merges) {
        Entry& into = caches[head][merge.into];
        if (merge.key_too) into.key = merge.key;
        into.value = merge.value;
        if (merge.key_too) into.log_size = merge.log_size;
        merged[head] = true;
      }
      for (const NaiveMerge& refit : decided[head].refits) {
        Entry& into = caches[head][refit.into];
        into.value = refit.value;
        into.log_size = refit.log_size;
        merged[head] = true;
      }
      std::erase_if(caches[head], [&](const auto& one) { return retained.count(one.first) == 0; });
    }
  }
  return result;
}

double relative_change(const std::vector<const NaiveAsked*>& parts) {
  double changed = 0.0, whole = 0.0;
  const NaiveAsked& first = *parts.front();
  for (std::size_t q = 0; q < first.output.size(); ++q) {
    for (std::size_t column = 0; column < first.output[q].size(); ++column) {
      double change = 0.0, output = 0.0;
      for (const NaiveAsked* part : parts) {
        change += part->change[q][column];
        output += part->output[q][column];
      }
      changed += change * change;
      whole += output * output;
    }
  }
  return std::sqrt(changed / whole);
}

}  // namespace kvloupe::naive
