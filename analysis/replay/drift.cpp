#include "analysis/replay/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/blas.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/math/numeric/statistics.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/cache/cache_attention.h"
#include "analysis/replay/cache/place_turns.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/record/head_states.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/trace_final_norm.h"

namespace kvloupe {

namespace {

/// The reason why two traces cannot be compared, and which of them.
struct Refusal {
  const Trace* which = nullptr;
  std::string why;
};

/// Whether the layers of two traces with the same number of them have the same kinds and shapes.
bool same_layers(const Trace& a, const Trace& b) {
  for (int layer = 0; layer < a.model().num_layers; ++layer) {
    const ModelInfo& x = a.layer_model(layer);
    const ModelInfo& y = b.layer_model(layer);
    if (x.kind != y.kind || x.num_heads != y.num_heads || x.num_kv_heads != y.num_kv_heads ||
        x.head_dim != y.head_dim || x.value_width() != y.value_width()) {
      return false;
    }
  }
  return true;
}

std::optional<Refusal> refusal(const Trace& full, const Trace& closed) {
  if (full.run().closed_loop()) {
    return Refusal{&full, "ran with " + full.run().policy +
                              " in its cache; give the run with the full cache first"};
  }
  if (!closed.run().closed_loop()) {
    return Refusal{&closed,
                   "ran with the full cache; give a closed-loop run second (kvloupe-capture run "
                   "--policy)"};
  }
  const ModelInfo& a = full.model();
  const ModelInfo& b = closed.model();
  if (a.num_layers != b.num_layers || a.num_heads != b.num_heads ||
      a.num_kv_heads != b.num_kv_heads || a.head_dim != b.head_dim ||
      a.vocab_size != b.vocab_size || a.hidden_size != b.hidden_size ||
      !same_layers(full, closed)) {
    return Refusal{&closed, "has a model of another shape than " + full.path().string() +
                                "; compare runs of the same model"};
  }
  const auto& ids = full.tokens().ids;
  const auto& others = closed.tokens().ids;
  const auto differ = std::mismatch(ids.begin(), ids.end(), others.begin(), others.end());
  if (differ.first != ids.end() || differ.second != others.end()) {
    const auto text = [](const Trace& trace, std::ptrdiff_t token) {
      if (token >= trace.length()) return std::string("nothing");
      const auto index = static_cast<std::size_t>(token);
      const TokenTable& table = trace.tokens();
      return table.text.empty()
                 ? std::to_string(table.ids[index])
                 : fmt::format("{} '{}'", table.ids[index], in_one_line(table.text[index]));
    };
    const std::ptrdiff_t token = differ.first - ids.begin();
    return Refusal{
        &closed,
        fmt::format(
            "token {} is {}, in {} it is {}; kvloupe-capture run --from {} forces the same tokens",
            token, text(closed, token), full.path().string(), text(full, token),
            full.path().string())};
  }
  for (int layer = 0; layer < a.num_layers; ++layer) {
    const Reach a = full.reach(layer), b = closed.reach(layer);
    if (a == b) continue;
    return Refusal{
        &closed,
        fmt::format(
            "sees a {} of {} tokens, {} a {} of {} (0: all); compare runs of the same model",
            b.name(), b.span(), full.path().string(), a.name(), a.span())};
  }
  if (const Reach reach = closed.narrowest_reach();
      !reach.all() && closed.run().positions == "compact") {
    return Refusal{&closed,
                   fmt::format("ran with compact positions beyond its model's {} of {} tokens, "
                               "where places are not defined; run it with original positions",
                               reach.name(), reach.span())};
  }
  if (full.run().prompt_length != closed.run().prompt_length) {
    return Refusal{
        &closed,
        fmt::format(
            "has a prompt of {} tokens, {} one of {}; capture both with the same prompt length",
            closed.run().prompt_length, full.path().string(), full.run().prompt_length)};
  }
  return std::nullopt;
}

/// The tokens of [first, end) that have not left by the end of a step.
std::vector<std::int32_t> retained_after(const std::vector<std::int32_t>& evicted_at, int first,
                                         int end, int step) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = first; token < end; ++token) {
    const std::int32_t left = evicted_at[static_cast<std::size_t>(token)];
    if (left < 0 || left > step) tokens.push_back(token);
  }
  return tokens;
}

std::vector<std::int32_t> evictions(const Trace& closed, int layer, int head) {
  auto evicted_at = closed.evicted_at(layer, head);
  if (!evicted_at) {
    throw FileError(closed.path().string(),
                    fmt::format("has no /layers/{}/evicted_at; capture it again", layer));
  }
  return std::move(*evicted_at);
}

/// The first step at which a closed-loop run evicted a token, or `none` if it evicted no token
/// before step `none`. A token that left because no later query sees it was not evicted.
int first_eviction(const Trace& closed, int layer, const std::vector<std::int32_t>& evicted_at,
                   int none) {
  for (std::size_t token = 0; token < evicted_at.size(); ++token) {
    const std::int32_t step = evicted_at[token];
    if (step < 0 || step >= none) continue;
    const int end = closed.blocks()[static_cast<std::size_t>(step)].end;
    if (static_cast<int>(token) >= first_seen(end, closed.reach(layer))) none = step;
  }
  return none;
}

/// Σ‖x − x'‖² and Σ‖x‖².
struct Distance {
  double difference = 0.0;
  double whole = 0.0;
  void add(const Matrix& full, const Matrix& closed) {
    difference += (full - closed).cast<double>().squaredNorm();
    whole += full.cast<double>().squaredNorm();
  }
  double relative() const { return whole > 0.0 ? std::sqrt(difference / whole) : 0.0; }
};

/// The states of a layer that are compared, beside its keys.
constexpr StateParts kCompared{
    .queries = true, .values = true, .output_weights = false, .value_norms = false};

/// One key-value head's states of one run, and its cache's entries.
struct HeadRun {
  Matrix keys, values;                   // [T,d]
  std::vector<Matrix> queries;           // [G] of [T,d]
  std::vector<std::int32_t> evicted_at;  // [T]
};

HeadRun head_run(const Trace& trace, int layer, int head, std::vector<std::int32_t> evicted_at) {
  HeadRun run{trace.key(layer, head), trace.value(layer, head), {}, std::move(evicted_at)};
  const int group = trace.layer_model(layer).group_size();
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    run.queries.push_back(trace.query(layer, query_head));
  }
  return run;
}

/// Attention of one head of one run, step by step; its room is used again at the next step.
class HeadAttention {
 public:
  /// `turns`: to places in the cache, or null. All are borrowed.
  HeadAttention(const HeadRun& run, const ModelInfo& model, const LayerAttention& of_head,
                PlaceTurns* turns)
      : run_(run), reach_(model.reach()), turns_(turns), attention_(alone(model), of_head) {}

  /// Outputs of a block's queries over the head's entries, per query head: [G] of [m,d].
  std::vector<Matrix> outputs(int step, const Block& block) {
    const int oldest = first_seen(block.first, reach_);  // of any of the queries
    const std::vector<std::int32_t> held =
        retained_after(run_.evicted_at, oldest, block.end, step - 1);
    const auto n = static_cast<Eigen::Index>(held.size());
    // Rows without a gap are read in place.
    const bool whole = n == block.end - oldest;
    if (!whole) {
      gather(run_.keys, held, keys_);
      gather(run_.values, held, values_);
    }
    const MatrixView present = whole ? rows(view(run_.keys), oldest, n) : view(keys_);
    const MatrixView values = whole ? rows(view(run_.values), oldest, n) : view(values_);
    std::vector<MatrixView> queries;
    for (const Matrix& query : run_.queries) {
      queries.push_back(rows(view(query), block.first, block.size()));
    }
    Matrix turned_keys;
    std::vector<Matrix> turned(queries.size());
    if (turns_ != nullptr) {
      turns_->turn_last(present, held, turned_keys);
      for (std::size_t i = 0; i < queries.size(); ++i) {
        turns_->turn_last(queries[i], held, turned[i]);
      }
      queries.clear();
      for (const Matrix& query : turned) queries.push_back(view(query));
    }
    const MatrixView keys = turns_ != nullptr ? view(turned_keys) : present;
    const std::vector<CacheView> caches{{held, keys, values, {}}};
    attention_.begin(caches, queries);
    std::vector<Matrix> outputs;
    for (int i = 0; i < static_cast<int>(queries.size()); ++i) {
      outputs.emplace_back(attention_.last_rows(i, block.size()) * values);
    }
    return outputs;
  }

 private:
  static ModelInfo alone(ModelInfo model) {
    model.num_heads = model.group_size();
    model.num_kv_heads = 1;
    return model;
  }
  static void gather(const Matrix& all, const std::vector<std::int32_t>& tokens, Matrix& some) {
    some.resize(std::ssize(tokens), all.cols());
    for (Eigen::Index i = 0; i < some.rows(); ++i) {
      some.row(i) = all.row(tokens[static_cast<std::size_t>(i)]);
    }
  }

  const HeadRun& run_;
  Reach reach_;
  PlaceTurns* turns_;
  CacheAttention attention_;
  Matrix keys_, values_;  // of a cache with gaps
};

LayerDrift layer_drift(const Trace& full, const Trace& closed, int layer, PlaceTurns* turns,
                       Progress& progress) {
  if (!full.attends(layer)) return {layer, kUnknown, kUnknown, kUnknown, kUnknown};
  Distance query, key, value, output;
  const ModelInfo model = full.layer_model(layer);
  const PolicySpec policy = parse_policy(closed.run().policy);
  const bool changed =  // entries are not those of the tokens' states
      !closed.merges(layer).empty() || makes_entries(policy) || has_part(policy, PartKind::storage);
  const std::vector<std::int32_t> never(static_cast<std::size_t>(full.length()), -1);
  for (int head = 0; head < model.num_kv_heads; ++head) {
    const HeadRun a = head_run(full, layer, head, never);
    const HeadRun b = head_run(closed, layer, head, evictions(closed, layer, head));
    key.add(a.keys, b.keys);
    value.add(a.values, b.values);
    for (std::size_t i = 0; i < a.queries.size(); ++i) query.add(a.queries[i], b.queries[i]);
    const std::vector<Block>& blocks = closed.blocks();
    const int group = model.group_size();
    const auto attention_in = [&](const Trace& trace) {
      return trace.attention(layer).of_heads(head * group, group);
    };
    HeadAttention in_full(a, model, attention_in(full), nullptr);
    HeadAttention in_closed(b, model, attention_in(closed), turns);
    for (int step = 0; !changed && step < static_cast<int>(blocks.size()); ++step) {
      progress.check();
      const Block& block = blocks[static_cast<std::size_t>(step)];
      const auto of_full = in_full.outputs(step, block);
      const auto of_closed = in_closed.outputs(step, block);
      for (std::size_t i = 0; i < of_full.size(); ++i) output.add(of_full[i], of_closed[i]);
    }
  }
  return {layer, query.relative(), key.relative(), value.relative(),
          changed ? kUnknown : output.relative()};
}

/// KL(full ‖ closed) of two logit rows.
double divergence(const Eigen::VectorXd& full, const Eigen::VectorXd& closed) {
  const auto log_probabilities = [](const Eigen::VectorXd& logits) -> Eigen::VectorXd {
    const double largest = logits.maxCoeff();
    return logits.array() - (largest + std::log((logits.array() - largest).exp().sum()));
  };
  const Eigen::VectorXd p = log_probabilities(full);
  const Eigen::VectorXd q = log_probabilities(closed);
  return (p.array().exp() * (p - q).array()).sum();
}

void token_drift(const Trace& full, const Trace& closed, Drift& drift, Progress& progress) {
  const auto a = full.predictions();
  const auto b = closed.predictions();
  if (!a || !b || a->k == 0 || b->k == 0 || a->loss.empty() || b->loss.empty()) {
    drift.notes.push_back("a trace has no predictions: next tokens are not compared");
    return;
  }
  const auto hidden_full = full.final_hidden();
  const auto hidden_closed = closed.final_hidden();
  const auto head = full.lm_head() ? full.lm_head() : closed.lm_head();
  const bool exact = hidden_full && hidden_closed && head;
  drift.divergence_kind = exact ? DivergenceKind::exact : DivergenceKind::top;
  drift.notes.push_back(
      exact ? "KL is computed with the output head rounded to float16"
            : fmt::format("KL is a lower bound, from the {} most probable tokens alone: {}",
                          std::min(a->k, b->k),
                          head ? std::string("a trace has no hidden states")
                               : fmt::format("the traces have no output head; for the exact KL {}",
                                             kCaptureOutputHead)));
  drift.tokens.resize(static_cast<std::size_t>(full.length()));
  progress.set_total(full.length());
  const OneBlasThread one_thread;
  parallel_loop(0, full.length(), [&](int index) {
    progress.advance();
    const auto token = static_cast<std::size_t>(index);
    TokenDrift& one = drift.tokens[token];
    if (exact) {
      const auto row = static_cast<Eigen::Index>(token);
      const Eigen::VectorXf of_full = *head * hidden_full->row(row).transpose();
      const Eigen::VectorXf of_closed = *head * hidden_closed->row(row).transpose();
      one.divergence = divergence(of_full.cast<double>(), of_closed.cast<double>());
    } else {
      one.divergence = top_divergence(*a, *b, token);
    }
    one.same_top1 = a->token_ids[token * static_cast<std::size_t>(a->k)] ==
                    b->token_ids[token * static_cast<std::size_t>(b->k)];
    one.loss_difference = static_cast<double>(b->loss[token]) - static_cast<double>(a->loss[token]);
  });
}

/// Mean over the tokens for which it is known; NaN for none.
template <typename Of>
double mean_over(const std::vector<TokenDrift>& tokens, Of of) {
  double sum = 0.0;
  long count = 0;
  for (const TokenDrift& token : tokens) {
    const double value = of(token);
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kUnknown;
}

}  // namespace

std::vector<double> retained_jaccard(const std::vector<std::int32_t>& a,
                                     const std::vector<std::int32_t>& b,
                                     const std::vector<Block>& blocks, const Reach& reach) {
  std::vector<double> values;
  for (int step = 0; step < static_cast<int>(blocks.size()); ++step) {
    const int end = blocks[static_cast<std::size_t>(step)].end;
    const int first = first_seen(end, reach);
    const auto retains = [step](const std::vector<std::int32_t>& evicted_at) {
      return [&evicted_at, step](std::int32_t token) {
        const std::int32_t left = evicted_at[static_cast<std::size_t>(token)];
        return left < 0 || left > step;
      };
    };
    values.push_back(set_overlap(first, end, retains(a), retains(b)).jaccard());
  }
  return values;
}

double layer_agreement(const Replay& open, const Trace& closed, int layer, Progress& progress) {
  int first = static_cast<int>(open.blocks.size());
  const ModelInfo& model = closed.layer_model(layer);
  for (const int l : closed.storing_layers()) {
    for (int head = 0; head < closed.layer_model(l).num_kv_heads; ++head) {
      progress.check();
      first = first_eviction(closed, l, evictions(closed, l, head), first);
    }
  }
  double sum = 0.0;
  for (int head = 0; head < model.num_kv_heads; ++head) {
    progress.check();
    const HeadReplay* replayed = open.find(layer, head);
    if (replayed == nullptr) throw WorkError(fmt::format("layer {} was not replayed", layer));
    const HeadDrift one{layer, head,
                        retained_jaccard(replayed->evicted_at, evictions(closed, layer, head),
                                         open.blocks, closed.reach(layer))};
    sum += Drift::mean_jaccard(one, first) / model.num_kv_heads;
  }
  return sum;
}

bool is_same_policy(const Replay& open, const Trace& closed) {
  const RunInfo& run = closed.run();
  return open.policy == run.policy && open.budget == run.budget && open.block == run.block_size &&
         open.compression == run.compression;
}

bool is_drift_pair(const Trace& full, const Trace& closed) { return !refusal(full, closed); }

double top_divergence(const Trace::Predictions& full, const Trace::Predictions& closed,
                      std::size_t token) {
  std::map<std::int32_t, double> of_closed;
  const auto k = static_cast<std::size_t>(closed.k);
  for (std::size_t i = token * k; i < (token + 1) * k; ++i) {
    of_closed[closed.token_ids[i]] = static_cast<double>(closed.logprob[i]);
  }
  double sum = 0.0, rest_full = 1.0, rest_closed = 1.0;
  const auto k_full = static_cast<std::size_t>(full.k);
  for (std::size_t i = token * k_full; i < (token + 1) * k_full; ++i) {
    const auto found = of_closed.find(full.token_ids[i]);
    if (found == of_closed.end()) continue;
    const double p = static_cast<double>(full.logprob[i]);
    sum += std::exp(p) * (p - found->second);
    rest_full -= std::exp(p);
    rest_closed -= std::exp(found->second);
  }
  constexpr double kNothing = 1e-6;  // float32 sums of probabilities are no better
  if (rest_full > kNothing)
    sum += rest_full * std::log(rest_full / std::max(rest_closed, kNothing));
  return std::max(sum, 0.0);
}

double Drift::mean_jaccard(const HeadDrift& head, int first_step) {
  double sum = 0.0;
  const auto first = static_cast<std::size_t>(first_step);
  if (first >= head.jaccard.size()) return 1.0;
  for (std::size_t step = first; step < head.jaccard.size(); ++step) sum += head.jaccard[step];
  return sum / static_cast<double>(head.jaccard.size() - first);
}

double Drift::mean_divergence() const {
  return mean_over(tokens, [](const TokenDrift& token) { return token.divergence; });
}
double Drift::same_top1_share() const {
  return mean_over(tokens, [](const TokenDrift& token) { return token.same_top1 ? 1.0 : 0.0; });
}
double Drift::mean_loss_difference() const {
  return mean_over(tokens, [](const TokenDrift& token) { return token.loss_difference; });
}

Drift measure_drift(const Trace& full, const Trace& closed, Progress& progress) {
  if (const auto refused = refusal(full, closed)) {
    throw FileError(refused->which->path().string(), refused->why);
  }
  Drift drift;
  drift.policy = closed.run().policy;
  drift.budget = closed.run().budget;
  drift.positions = closed.run().positions;
  drift.blocks = closed.blocks();

  ReplayRequest request{.policy = parse_policy(closed.run().policy),
                        .budget = closed.run().budget,
                        .block = closed.run().block_size,
                        .compression = closed.run().compression,
                        .metrics = false};
  // Approximate shares of the work. Tokens take long only with an output head.
  constexpr long kReplayWeight = 300, kLayersWeight = 600, kTokensWeight = 100;
  progress.set_total(kReplayWeight + kLayersWeight + kTokensWeight);
  Progress replaying(progress, kReplayWeight);
  const Replay open = replay(full, request, replaying);
  replaying.finish();
  const bool same_blocks = std::equal(
      open.blocks.begin(), open.blocks.end(), drift.blocks.begin(), drift.blocks.end(),
      [](const Block& a, const Block& b) { return a.first == b.first && a.end == b.end; });
  if (!same_blocks) {
    throw FileError(closed.path().string(),
                    "ran with blocks that differ from its block size; capture it again");
  }

  const auto steps = static_cast<int>(drift.blocks.size());
  drift.first_eviction = steps;
  for (const HeadReplay& head : open.heads) {
    const auto evicted_at = evictions(closed, head.layer, head.head);
    drift.first_eviction = first_eviction(closed, head.layer, evicted_at, drift.first_eviction);
    drift.heads.push_back(
        {head.layer, head.head,
         retained_jaccard(head.evicted_at, evicted_at, drift.blocks, full.reach(head.layer))});
  }

  const auto layers = static_cast<std::size_t>(full.model().num_layers);
  drift.layers.resize(layers);
  Progress comparing(progress, kLayersWeight);
  comparing.set_total(static_cast<long>(layers));
  comparing.count("layers", static_cast<long>(layers));
  LayerLoop loop{.most_at_once = layers_at_once(layer_bytes(full, kCompared), kLargeLayer)};
  for_layers(layers, loop, [&](std::size_t layer, const HeadLoop&) {
    std::unique_ptr<PlaceTurns> turns;  // it keeps what it turned last
    if (drift.positions == "compact" && closed.attends(static_cast<int>(layer)))
      turns = std::make_unique<PlaceTurns>(closed.layer_model(static_cast<int>(layer)));
    drift.layers[layer] =
        layer_drift(full, closed, static_cast<int>(layer), turns.get(), comparing);
    comparing.advance();
  });
  if (std::any_of(drift.layers.begin(), drift.layers.end(),
                  [](const LayerDrift& layer) { return std::isnan(layer.output); })) {
    drift.notes.push_back(
        "entries were merged or refitted, or lost bits: the outputs of these layers cannot be "
        "computed from the trace");
  }
  Progress of_tokens(progress, kTokensWeight);
  token_drift(full, closed, drift, of_tokens);
  of_tokens.finish();
  return drift;
}

}  // namespace kvloupe
