#include "app/figure/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/math/rope.h"
#include "analysis/policy/kit/shared_prefix.h"
#include "analysis/policy/random_line.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/measure/shared_measures.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/given_tokens.h"

namespace kvloupe::figure {

std::vector<PolicySpec> chosen_policies(const FigureInput& input, std::string_view name) {
  return parse_policies(input.choice(name), input.spec_a, input.spec_b ? &*input.spec_b : nullptr);
}

std::vector<std::string> chance_names(const std::vector<std::string>& policies) {
  std::vector<std::optional<PolicySpec>> specs;
  std::vector<PolicySpec> known;
  for (const std::string& text : policies) {
    try {
      specs.emplace_back(parse_policy(text));
      known.push_back(*specs.back());
    } catch (const UsageError&) {  // of another version, or of a plugin that is not loaded
      specs.emplace_back();
    }
  }
  std::vector<std::string> names;
  for (const std::optional<PolicySpec>& spec : specs)
    names.push_back(spec ? random_line_name(*spec, known) : "");
  return names;
}

std::vector<Budget> chosen_budgets(const FigureInput& input, std::string_view name) {
  std::vector<std::pair<int, Budget>> budgets;
  for (const Budget& budget : parse_budgets(input.choice(name)))
    budgets.emplace_back(budget_entries(budget, *input.trace), budget);
  std::stable_sort(budgets.begin(), budgets.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Budget> result;
  int last = -1;
  for (const auto& [entries, budget] : budgets) {
    if (entries != last) result.push_back(budget);
    last = entries;
  }
  return result;
}

std::vector<int> chosen_blocks(const FigureInput& input, std::string_view name) {
  std::vector<int> blocks;
  for (int block : parse_blocks(input.choice(name))) {
    if (block == kWholePrompt) block = input.trace->run().prompt_length;
    if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
  }
  return blocks;
}

std::vector<double> chosen_numbers(const FigureInput& input, std::string_view name) {
  return parse_numbers(input.choice(name));
}

double chosen_number(const FigureInput& input, std::string_view name) {
  return chosen_numbers(input, name).front();
}

std::vector<int> chosen_tokens(const FigureInput& input, std::string_view name) {
  return named_tokens(*input.trace, input.choice(name));
}

namespace {
constexpr std::size_t kMostShared = std::size_t{1} << 28U;  // bytes of what measures share
constexpr std::size_t kMostPrefix = std::size_t{1} << 26U;  // and policies

/// The data that the measured replays of one trace share, by the trace and the measures.
using SharedByTrace = std::map<std::pair<std::size_t, std::vector<std::string>>, SharedMeasures>;

std::shared_ptr<const Replay> measured(const FigureInput& input, const WantedReplay& wanted,
                                       const Replay& replay, SharedMeasures* shared,
                                       Progress& progress) {
  MeasureRequest request{.measures = wanted.measures,
                         .steps = wanted.steps,
                         .summary = wanted.summary,
                         .states = &input.replays->states(),
                         .shared = shared};
  return std::make_shared<const Replay>(
      measure_replay(*input.traces.at(wanted.trace), replay, request, progress));
}

/// A replay by WantedReplay. `shared`: with others of the trace and the same measures; `prefix`:
/// with others of the trace; null: nothing.
std::shared_ptr<const Replay> make_replay(const FigureInput& input, const WantedReplay& wanted,
                                          SharedMeasures* shared, SharedPrefix* prefix,
                                          Progress& progress) {
  const Trace& trace = *input.traces.at(wanted.trace);
  ReplayRequest request{
      .policy = wanted.policy,
      .budget = budget_entries(wanted.budget.value_or(input.budget), trace, wanted.policy),
      .block = wanted.block.value_or(input.block),
      .compression = input.compression,
      .layers = wanted.layers,
      .metrics = false,
      .prefix = prefix};
  if (wanted.scores) {
    request.scores_layer = input.selection.layer;
    request.scores_head = input.selection.head;
  }
  const bool measures = !wanted.measures.empty();
  const long own = measures ? kReplaySteps * 3 / 4 : kReplaySteps;
  Progress replaying(progress, own);
  auto replay = input.replays->get(trace, request, replaying);
  replaying.finish();
  if (!measures) return replay;
  Progress measuring(progress, kReplaySteps - own);
  replay = measured(input, wanted, *replay, shared, measuring);
  measuring.finish();
  return replay;
}
}  // namespace

std::vector<WantedReplay> for_each_policy(const std::vector<PolicySpec>& policies,
                                          const WantedReplay& like) {
  std::vector<WantedReplay> wanted(policies.size(), like);
  for (std::size_t p = 0; p < policies.size(); ++p) wanted[p].policy = policies[p];
  return wanted;
}

Replays replays_of(const FigureInput& input, const std::vector<WantedReplay>& wanted,
                   Progress& progress, long more, const FigureOfReplays& show) {
  const bool shows = show && input.on_part && !input.shown;
  auto last_shown = std::chrono::steady_clock::now();
  progress.set_total(static_cast<long>(wanted.size()) * kReplaySteps + more);
  progress.count("replays", std::ssize(wanted), kReplaySteps);
  SharedByTrace shared;
  std::map<std::size_t, SharedPrefix> prefixes;
  Replays replays(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const WantedReplay& one = wanted[i];
    SharedMeasures* own = nullptr;
    if (!one.measures.empty() && wanted.size() > 1) {
      own = &shared.try_emplace({one.trace, one.measures}, kMostShared).first->second;
    }
    SharedPrefix* prefix = nullptr;
    if (wanted.size() > 1) prefix = &prefixes.try_emplace(one.trace, kMostPrefix).first->second;
    replays[i] = make_replay(input, one, own, prefix, progress);
    const auto now = std::chrono::steady_clock::now();
    if (!shows || i + 1 == wanted.size() || now - last_shown < input.replays->between_parts())
      continue;
    last_shown = now;
    input.on_part(show(replays));
  }
  return replays;
}

std::unique_ptr<const Figure> figure_of_replays(const FigureInput& input,
                                                const std::vector<WantedReplay>& wanted,
                                                Progress& progress, const FigureOfReplays& show) {
  return show(replays_of(input, wanted, progress, 0, show));
}

std::vector<AskedReplay> asked_of(const FigureInput& input, const Replays& replays,
                                  Progress& progress) {
  const AskOptions options{.states = &input.replays->states()};
  Progress asking(progress, kReplaySteps);
  std::vector<AskedReplay> answers =
      ask(*input.trace, pointers(replays), asked_first(input.trace->tokens(), input.trace->run()),
          options, asking);
  asking.finish();
  return answers;
}

std::string asked_measure(const Trace& trace, const std::string& name) {
  return std::string(asked_name(asked_first(trace.tokens(), trace.run()))) + "_" + name;
}

std::vector<const Replay*> pointers(const Replays& replays) {
  std::vector<const Replay*> all;
  for (const auto& replay : replays) all.push_back(replay.get());
  return all;
}

bool compresses_a_prefix(const FigureInfo& info) {
  return std::any_of(info.choices.begin(), info.choices.end(),
                     [](const ChoiceInfo& one) { return one.name == kPrefixChoice; });
}

std::string without_full_cache(const Trace& trace) {
  return trace.run().closed_loop()
             ? "a closed-loop trace does not have the attention with the full cache"
             : "";
}

std::string without_rotation(const Trace& trace) {
  try {
    Rope rope(trace.layer_model(trace.storing_layers().front()));
    return {};
  } catch (const WorkError& error) {
    return error.what();
  }
}

std::string fixed_block_size(const Trace& trace) {
  return !trace.run().closed_loop() ? "" : "a closed-loop trace accepts only its own block size";
}

const HeadReplay& head_of(const Replay& replay, int layer, int head) {
  const HeadReplay* found = replay.find(layer, head);
  if (found == nullptr)
    throw WorkError(fmt::format("layer {}, head {} was not replayed", layer, head));
  return *found;
}

std::string asked_text(const Trace& trace) {
  const Asked asked = asked_first(trace.tokens(), trace.run());
  return asked == Asked::later ? "for later queries"
                               : fmt::format("for the {}'s queries", asked_name(asked));
}

}  // namespace kvloupe::figure
