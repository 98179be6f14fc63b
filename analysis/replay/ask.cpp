#include "analysis/replay/ask.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "analysis/math/logit_path.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/replay/evidence.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/record/head_states.h"

namespace kvloupe {

namespace {
/// The places of one layer's heads in the replay, by head.
struct AskedHeads {
  int layer = 0;
  std::vector<std::size_t> places;
};

std::vector<AskedHeads> layers_of(const Replay& replay) {
  std::vector<AskedHeads> layers;
  for (std::size_t i = 0; i < replay.heads.size(); ++i) {
    const int layer = replay.heads[i].layer;
    if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, {}});
    layers.back().places.push_back(i);
  }
  return layers;
}

/// The queries of one step: [first, first + count) of those asked.
struct OfStep {
  int step = 0;
  std::size_t first = 0, count = 0;
};

std::vector<OfStep> by_step(const std::vector<int>& queries, const std::vector<Block>& blocks) {
  std::vector<OfStep> steps;
  std::size_t next = 0;
  for (std::size_t step = 0; step < blocks.size() && next < queries.size(); ++step) {
    OfStep of{static_cast<int>(step), next, 0};
    while (next < queries.size() && queries[next] < blocks[step].end) ++next;
    of.count = next - of.first;
    if (of.count > 0) steps.push_back(of);
  }
  return steps;
}

/// Whether the cache held entries that the trace does not have.
bool merges(const HeadReplay& head) {
  return std::any_of(head.steps.begin(), head.steps.end(),
                     [](const StepRecord& step) { return step.differs_from_trace(); });
}

/// The entries that a step's queries find: those that had not left before the step.
std::vector<std::int32_t> found_at(const HeadReplay& head, int step, const Block& block) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = 0; token < block.end; ++token) {
    const std::int32_t left = head.evicted_at[static_cast<std::size_t>(token)];
    if (left < 0 || left >= step) tokens.push_back(token);
  }
  return tokens;
}

/// One replay, the same for all layers.
struct Asking {
  const Replay& replay;
  PolicySpec policy;
  std::unique_ptr<const SequenceTables> tables;
};

/// Replays that have the same blocks and the same heads.
struct AskedTogether {
  std::vector<std::size_t> members;  // places of the replays
  std::vector<AskedHeads> layers;
  std::vector<OfStep> steps;
  std::vector<int> queries;
  Eigen::MatrixXd gradients;
};

bool same_shape(const Replay& a, const Replay& b) {
  return std::equal(
             a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
             [](const Block& x, const Block& y) { return x.first == y.first && x.end == y.end; }) &&
         std::equal(a.heads.begin(), a.heads.end(), b.heads.begin(), b.heads.end(),
                    [](const HeadReplay& x, const HeadReplay& y) {
                      return x.layer == y.layer && x.head == y.head;
                    });
}

/// Adds the caches as the policy's own replay of the layer has them.
void add_replayed(const Asking& what, const std::vector<OfStep>& steps, const LayerStates& states,
                  LayerContext context, const LayerDecider* decider,
                  const std::vector<char>& wanted, AskedLayer& asked, Progress& progress) {
  const std::function<void(int, int, const HeadCache&)> on_found = [&](int head, int step,
                                                                       const HeadCache& cache) {
    const auto of = std::find_if(steps.begin(), steps.end(),
                                 [&](const OfStep& one) { return one.step == step; });
    if (of == steps.end() || wanted[static_cast<std::size_t>(head)] == 0) return;
    const CacheView held = cache.whole();
    const FoundEntries found{held.tokens, cache.changed() ? &held : nullptr};
    const AskedBlock block{of->first, of->count, {&found, 1}};
    asked.add(head, {&block, 1});
  };
  Progress part(progress, 0);
  context.budget = what.replay.budget;
  context.sequence = what.tables.get();
  std::optional<LayerDecider> own_decider;
  if (decider != nullptr) {
    own_decider.emplace(*decider);
    own_decider->context.budget = context.budget;
    own_decider->context.sequence = context.sequence;
    decider = &*own_decider;
  }
  LayerReplayInput input{states, what.replay.blocks, what.policy, std::move(context)};
  input.decider = decider;
  input.metrics = false;
  input.last_step = steps.back().step;
  input.acts_until = what.replay.acts_until;
  input.on_found = &on_found;
  replay_layer(input, part);
}

/// Adds the entries of the heads' caches from the records of all these replays.
void add_records(const std::vector<const Asking*>& replays, const AskedHeads& heads,
                 const std::vector<OfStep>& steps, const HeadLoop& for_heads, AskedLayer& asked,
                 Progress& progress) {
  for_heads(static_cast<int>(heads.places.size()), [&](int i) {
    const std::size_t place = heads.places[static_cast<std::size_t>(i)];
    // Some steps at a time, so that the entries that all replays have there take little memory.
    constexpr std::size_t kSteps = 64;
    for (std::size_t first = 0; first < steps.size(); first += kSteps) {
      progress.check();
      const std::size_t count = std::min(kSteps, steps.size() - first);
      std::vector<std::vector<std::vector<std::int32_t>>> tokens(count);  // [steps][replays]
      std::vector<std::vector<FoundEntries>> found(count);
      std::vector<AskedBlock> blocks;
      for (std::size_t step = 0; step < count; ++step) {
        const OfStep& of = steps[first + step];
        for (const Asking* one : replays) {
          tokens[step].push_back(found_at(one->replay.heads[place], of.step,
                                          one->replay.blocks[static_cast<std::size_t>(of.step)]));
        }
        for (const std::vector<std::int32_t>& own : tokens[step]) found[step].push_back({own});
        blocks.push_back({of.first, of.count, found[step]});
      }
      asked.add(replays.front()->replay.heads[place].head, blocks);
    }
  });
}

/// The sums of a layer that was replayed whole, [Q,D]; else empty.
struct LayerAnswer {
  Eigen::MatrixXd output, change;
};

/// Asks one layer of all replays of a group. The heads' answers go to `results`; the returned
/// layers' answers are [members].
std::vector<LayerAnswer> ask_layer(const Trace& trace, const std::vector<Asking>& all,
                                   const AskedTogether& group, const AskedHeads& heads,
                                   const AskOptions& options, const HeadLoop& for_heads,
                                   std::vector<AskedReplay>& results, Progress& progress) {
  const auto is_merged = [&](std::size_t member) {
    const Replay& replay = all[group.members[member]].replay;
    return std::any_of(heads.places.begin(), heads.places.end(),
                       [&](std::size_t place) { return merges(replay.heads[place]); });
  };
  bool any_merged = false;
  for (std::size_t member = 0; member < group.members.size(); ++member)
    any_merged = any_merged || is_merged(member);
  // Reads only the queries that ask, if they are few and side by side: in a long trace, all queries
  // of a layer are most of the bytes read. A replay with merges needs all queries.
  const Block asking{group.queries.front(), group.queries.back() + 1};
  const bool few = !any_merged && asking.size() <= trace.length() / 4;
  StateParts parts{.queries = !few};
  const auto states = layer_states(options.states, trace, heads.layer, parts, progress);
  std::optional<QueryRows> rows;
  if (states->queries.empty()) {
    rows.emplace(QueryRows{trace.queries(heads.layer, asking), asking.first, asking.size()});
  }
  const QueryRows* const query_rows = rows ? &*rows : nullptr;
  LayerContext context{.layer = heads.layer,
                       .model = trace.layer_model(heads.layer),
                       .attention = trace.attention(heads.layer),
                       .output_weights = states->output_weights,
                       .for_heads = for_heads,
                       .progress = &progress};
  const bool whole = static_cast<int>(heads.places.size()) == context.model.num_kv_heads;
  std::vector<LayerAnswer> answers(group.members.size());
  const auto take = [&](const AskedLayer& asked, std::size_t of, std::size_t member) {
    const Replay& replay = all[group.members[member]].replay;
    for (const std::size_t place : heads.places) {
      results[group.members[member]].heads[place] = asked.head(replay.heads[place].head, of);
    }
    if (whole) answers[member] = {asked.output(), asked.change(of)};
  };
  std::vector<const Asking*> of_records;
  std::vector<std::size_t> members;  // of `of_records`
  for (std::size_t member = 0; member < group.members.size(); ++member) {
    const Asking& one = all[group.members[member]];
    if (!is_merged(member)) {
      of_records.push_back(&one);
      members.push_back(member);
      continue;
    }
    std::vector<char> wanted(static_cast<std::size_t>(context.model.num_kv_heads), 0);
    for (const std::size_t place : heads.places) {
      wanted[static_cast<std::size_t>(one.replay.heads[place].head)] = 1;
    }
    AskedLayer asked(*states, context, group.queries, &group.gradients, 1, query_rows);
    const DecidingLayer deciding(trace, heads.layer, options.states, context, progress);
    add_replayed(one, group.steps, *states, context, deciding.get(), wanted, asked, progress);
    take(asked, 0, member);
  }
  if (of_records.empty()) return answers;
  AskedLayer asked(*states, context, group.queries, &group.gradients, of_records.size(),
                   query_rows);
  add_records(of_records, heads, group.steps, for_heads, asked, progress);
  for (std::size_t i = 0; i < members.size(); ++i) take(asked, i, members[i]);
  return answers;
}

double quotient(const Eigen::MatrixXd& change, const Eigen::MatrixXd& output) {
  const double whole = output.squaredNorm();
  return whole > 0.0 ? std::sqrt(change.squaredNorm() / whole) : AskedReplay::kUnknown;
}
}  // namespace

Eigen::MatrixXd next_token_gradients(const Trace& trace, const std::vector<int>& queries) {
  if (queries.empty() || !LogitPath::missing(trace).empty()) return {};
  const LogitPath path(trace);
  Eigen::MatrixXd gradients =
      Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(queries.size()), trace.model().hidden_size);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto next = static_cast<std::size_t>(queries[i]) + 1;
    if (next >= trace.tokens().ids.size()) continue;
    gradients.row(static_cast<Eigen::Index>(i)) =
        path.gradient(queries[i], trace.tokens().ids[next]).transpose();
  }
  return gradients;
}

namespace {
/// The answer of one replay from those of its layers, in their order, so that sums do not depend on
/// the number of threads.
void sum_up(const std::vector<AskedHeads>& layers,
            const std::vector<std::vector<LayerAnswer>>& answers, std::size_t member,
            std::size_t attending, AskedReplay& result) {
  Eigen::MatrixXd output, change;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerAnswer& answer = answers[i][member];
    if (answer.output.size() == 0) continue;
    result.layer_errors[static_cast<std::size_t>(layers[i].layer)] =
        quotient(answer.change, answer.output);
    if (whole++ == 0) {
      output = answer.output;
      change = answer.change;
    } else {
      output += answer.output;
      change += answer.change;
    }
  }
  if (whole == 0 || whole < attending) return;
  result.residual_change = quotient(change, output);
  result.worst_layer_error = 0.0;
  for (const double error : result.layer_errors) {
    if (error > result.worst_layer_error) result.worst_layer_error = error;
  }
  result.logit_change = 0.0;
  for (std::size_t i = 0; i < result.heads.size(); ++i) {
    result.parts[i] = std::sqrt(result.heads[i].squared_change / output.squaredNorm());
    result.logit_change += result.heads[i].effect;
  }
}

void ask_together(const Trace& trace, const std::vector<Asking>& all, const AskedTogether& group,
                  const AskOptions& options, std::vector<AskedReplay>& results,
                  Progress& progress) {
  std::vector<std::vector<LayerAnswer>> answers(group.layers.size());
  LayerLoop loop{options.threads, options.background};
  loop.most_at_once = layers_at_once(layer_bytes(trace, StateParts()), kLargeLayer);
  for_layers(group.layers.size(), loop, [&](std::size_t index, const HeadLoop& for_heads) {
    progress.check();
    answers[index] =
        ask_layer(trace, all, group, group.layers[index], options, for_heads, results, progress);
    progress.advance(std::ssize(group.members));
  });
  std::size_t attending = 0;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    if (trace.attends(layer)) ++attending;
  }
  for (std::size_t member = 0; member < group.members.size(); ++member) {
    sum_up(group.layers, answers, member, attending, results[group.members[member]]);
  }
}
}  // namespace

int AskedReplay::worst_layer() const {
  int worst = -1;
  for (std::size_t layer = 0; layer < layer_errors.size(); ++layer) {
    if (std::isnan(layer_errors[layer])) continue;
    if (worst < 0 || layer_errors[layer] > layer_errors[static_cast<std::size_t>(worst)])
      worst = static_cast<int>(layer);
  }
  return worst;
}

std::vector<AskedReplay> ask(const Trace& trace, std::span<const Replay* const> replays,
                             Asked asked, const AskOptions& options, Progress& progress) {
  // Most bytes of the layers' answers: Σ o W_O and Σ (o' − o) W_O of each replay.
  constexpr std::size_t kMostAnswers = std::size_t{1} << 28U;
  std::vector<AskedReplay> results(replays.size());
  std::vector<Asking> all;
  std::vector<AskedTogether> groups;
  long total = 0;
  for (std::size_t i = 0; i < replays.size(); ++i) {
    const Replay& replay = *replays[i];
    AskedReplay& result = results[i];
    const int first_step = replay.blocks.empty() ? trace.length() : replay.blocks.front().end;
    result.queries = asked_queries(trace, asked, first_step);
    result.heads.resize(replay.heads.size());
    result.parts.assign(replay.heads.size(), AskedReplay::kUnknown);
    result.layer_errors.assign(static_cast<std::size_t>(trace.model().num_layers),
                               AskedReplay::kUnknown);
    all.push_back({replay, parse_policy(replay.policy),
                   std::make_unique<const SequenceTables>(
                       trace, known_end(trace, replay.acts_until), &progress)});
    const std::vector<AskedHeads> layers = layers_of(replay);
    total += std::ssize(layers);
    if (result.queries.empty()) continue;
    const std::size_t bytes = 2 * layers.size() * result.queries.size() *
                              static_cast<std::size_t>(trace.model().hidden_size) * sizeof(double);
    const std::size_t most =
        std::max<std::size_t>(kMostAnswers / std::max<std::size_t>(bytes, 1), 1);
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const AskedTogether& one) {
      return one.members.size() < most && same_shape(*replays[one.members.front()], replay);
    });
    if (group != groups.end()) {
      group->members.push_back(i);
      continue;
    }
    groups.push_back({{i},
                      layers,
                      by_step(result.queries, replay.blocks),
                      result.queries,
                      next_token_gradients(trace, result.queries)});
  }
  progress.set_total(total);
  if (!replays.empty()) progress.count("layers", total / std::ssize(replays), std::ssize(replays));
  for (const AskedTogether& group : groups)
    ask_together(trace, all, group, options, results, progress);
  return results;
}

AskedReplay ask(const Trace& trace, const Replay& replay, Asked asked, const AskOptions& options,
                Progress& progress) {
  const Replay* const one = &replay;
  return std::move(ask(trace, std::span(&one, 1), asked, options, progress).front());
}

void ask(const Trace& trace, const MeasureChoice& choice, const AskOptions& options,
         Progress& progress, Replay& replay) {
  constexpr long kParts = 100;
  const std::vector<Asked> all = asked_by(choice);
  progress.set_total(kParts * (std::ssize(all) + (asks_evidence(choice) ? 1 : 0)));
  for (const Asked asked : all) {
    Progress part(progress, kParts);
    const AskedReplay answer = ask(trace, replay, asked, options, part);
    for (std::size_t i = 0; i < replay.heads.size(); ++i) {
      HeadReplay& head = replay.heads[i];
      const AskedHead& own = answer.heads[i];
      const auto set = [&](std::string_view name, double value) {
        set_asked(asked, name, value, head);
      };
      set("kept_attention", own.kept_attention);
      set("output_error", own.output_error);
      set("perturbation_l1", own.perturbation_l1);
      set("bound_l1", own.bound_l1);
      set("residual_part", answer.parts[i]);
      set("logit_part", own.effect);
      set("layer_error", answer.layer_errors[static_cast<std::size_t>(head.layer)]);
      set("worst_layer_error", answer.worst_layer_error);
      set("residual_change", answer.residual_change);
      set("logit_change", answer.logit_change);
    }
  }
  if (!asks_evidence(choice)) return;
  Progress part(progress, kParts);
  set_evidence(evidence_of(trace, replay, options, part), replay);
  const std::string missing = missing_evidence(trace);
  const auto is_named = [](const std::string& name) {
    return name != "all" && require_measure(name).family->of_evidence;
  };
  const auto named = std::find_if(choice.names.begin(), choice.names.end(), is_named);
  if (!missing.empty() && named != choice.names.end()) {
    replay.notes.push_back(*named + " is not known: " + missing);
  }
}

}  // namespace kvloupe
