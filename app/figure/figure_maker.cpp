#include "app/figure/figure_maker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "analysis/error.h"
#include "analysis/evaluation/evaluation.h"
#include "app/figure/comparison.h"
#include "app/figure/figure_catalog.h"
#include "app/figure/figures/of_evaluation.h"
#include "version.h"

namespace kvloupe::figure {

namespace {

/// A choice in words: policies by their canonical specs, A and B by what they are.
std::string choice_in_words(const FigureInfo& info, const FigureInput& input,
                            const ChoiceInfo& one) {
  if (one.kind != ChoiceKind::policies) return choice(info, input.choices, one.name);
  std::vector<std::string> specs;
  for (const PolicySpec& policy : chosen_policies(info, input, one.name))
    specs.push_back(policy.text());
  return fmt::format("{}", fmt::join(specs, ", "));
}

std::string names_of(const std::vector<std::shared_ptr<const Trace>>& traces) {
  std::vector<std::string> names;
  for (const auto& trace : traces) names.push_back(trace->path().filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The selection that the settings ask for, open ends and all.
Selection wanted_selection(const FigureSettings& settings, const ModelInfo& model) {
  Selection wanted = default_selection(model);
  if (settings.layer) wanted.layer = *settings.layer;
  if (settings.query_head) {
    wanted.query_head = *settings.query_head;
    if (!settings.head && *settings.query_head >= 0 && *settings.query_head < model.num_heads) {
      wanted.head = model.head_of(*settings.query_head);
    }
  }
  if (settings.head) wanted.head = *settings.head;
  if (settings.step) wanted.step = *settings.step;
  if (settings.token) wanted.token = *settings.token;
  if (settings.tokens) std::tie(wanted.first_token, wanted.last_token) = *settings.tokens;
  return wanted;
}

/// The replay of a selected policy, with what the figure needs of it.
std::shared_ptr<const Replay> selected_replay(const FigureInput& input, const PolicySpec& policy,
                                              const Needs& needs, Progress& progress) {
  WantedReplay wanted;
  wanted.policy = policy;
  if (!needs.all_layers) wanted.layers = {input.selection.layer};
  wanted.metrics = needs.metrics;
  wanted.scores = needs.scores;
  Progress part(progress, 0);  // the figure's own work is what progress counts
  return replay_of(input, wanted, part);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_in_words(const FigureInfo& info,
                                                                   const FigureInput& input) {
  std::vector<std::pair<std::string, std::string>> settings;
  const auto say = [&](const char* key, std::string value) {
    settings.emplace_back(key, std::move(value));
  };
  say("figure", info.name);
  if (info.needs.evaluation) {
    say("results", input.evaluation->path.filename().string());
    if (!input.evaluation->model.empty()) say("model", input.evaluation->model);
    const std::string budget = info.needs.evaluated_budget ? evaluated_budget(input) : "";
    if (!budget.empty()) say("budget", budget);
    for (const ChoiceInfo& one : info.choices)
      say(one.name.c_str(), choice_in_words(info, input, one));
    say("version", "kvloupe " KVLOUPE_VERSION);
    return settings;
  }
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  say("trace", names_of(input.traces));
  say("model", trace.model().name);
  if (input.policy_a) {
    say("policy", input.policy_a->policy);
    if (input.policy_b) say("policy_b", input.policy_b->policy);
  }
  const auto has_choice = [&](ChoiceKind kind) {
    return std::any_of(info.choices.begin(), info.choices.end(),
                       [&](const ChoiceInfo& one) { return one.kind == kind; });
  };
  if (input.policy_a) {
    say("budget", std::to_string(input.policy_a->budget));
  } else if (info.needs.comparison && !has_choice(ChoiceKind::budgets)) {
    say("budget", std::to_string(input.budget.resolve(trace.run().prompt_length)));
  }
  if (input.policy_a) {
    say("block", std::to_string(input.policy_a->block));
  } else if (info.needs.comparison && !has_choice(ChoiceKind::blocks)) {
    say("block", std::to_string(input.block > 0 ? input.block : trace.run().block_size));
  }
  if (info.needs.head) {
    say("layer", std::to_string(s.layer));
    say("head", std::to_string(s.head));
    if (s.query_head >= 0) say("query_head", std::to_string(s.query_head));
  }
  if (info.needs.step) say("step", std::to_string(s.step));
  if (info.needs.tokens) say("tokens", fmt::format("{}-{}", s.first_token, s.last_token));
  if (info.needs.token && s.token >= 0) say("token", std::to_string(s.token));
  for (const ChoiceInfo& one : info.choices)
    say(one.name.c_str(), choice_in_words(info, input, one));
  say("version", "kvloupe " KVLOUPE_VERSION);
  return settings;
}

MadeFigure made_from(const FigureInfo& info, const FigureInput& input, Progress& progress) {
  MadeFigure made;
  made.figure = info.compute(input, progress);
  made.settings = settings_in_words(info, input);
  made.traces = input.traces;
  if (input.policy_a) {
    made.steps = input.policy_a->blocks;
  } else if (input.trace) {
    made.steps = info.needs.step ? replay_blocks(*input.trace, input.block) : input.trace->blocks();
  }
  return made;
}

namespace {

MadeFigure make_of_evaluation(const FigureInfo& info, const FigureSettings& settings,
                              const std::shared_ptr<const Evaluation>& evaluation,
                              Progress& progress) {
  if (!evaluation) throw WorkError("figure " + info.name + ": the file has no results to show");
  FigureInput input;
  input.evaluation = evaluation;
  input.choices = settings.choices;
  input.spec_a = parse_policy(settings.policy);
  input.budget = parse_budget(settings.budget);
  return made_from(info, input, progress);
}

}  // namespace

void check_trace_count(const FigureInfo& info, std::size_t count, const std::string& last) {
  const auto fewest = static_cast<std::size_t>(info.needs.fewest_traces);
  const auto most = static_cast<std::size_t>(info.needs.most_traces);
  if (info.needs.evaluation) {
    if (count > 0) {
      throw UsageError(fmt::format("figure {} needs results of kvloupe-capture eval", info.name));
    }
    return;
  }
  if (count < fewest) {
    throw UsageError(
        fmt::format("figure {} compares several traces; give at least {}", info.name, fewest));
  }
  if (count <= most) return;
  throw UsageError(
      most == 1 ? fmt::format("{}: figure {} reads one trace; give only one input", last, info.name)
                : fmt::format("{}: figure {} reads at most {} traces", last, info.name, most));
}

MadeFigure FigureMaker::make(const FigureInfo& info, const FigureSettings& settings,
                             Progress& progress) const {
  check_choices(info, settings.choices);
  check_trace_count(info, traces_.size(), traces_.empty() ? "" : traces_.back()->path().string());
  if (info.needs.evaluation) return make_of_evaluation(info, settings, evaluation_, progress);
  for (const auto& trace : traces_) {
    if (const std::string why = info.unavailable(*trace); !why.empty())
      throw WorkError("figure " + info.name + ": " + why);
  }
  FigureInput input;
  input.trace = traces_.front();
  input.traces = traces_;
  input.replays = replays_;
  input.choices = settings.choices;
  // Also where no policy is needed: a wrong spec is an error, whatever the figure.
  input.spec_a = parse_policy(settings.policy);
  if (!settings.policy_b.empty()) {
    input.spec_b = parse_policy(settings.policy_b);
  } else if (info.needs.policy_b) {
    input.spec_b = parse_policy(input.spec_a == parse_policy("h2o") ? "keydiff" : "h2o");
  }
  input.budget = parse_budget(settings.budget);
  input.block = settings.block;
  const bool replayed = info.needs.policy || info.needs.step || info.needs.comparison;
  const std::vector<Block> blocks =
      replayed ? replay_blocks(*input.trace, settings.block) : input.trace->blocks();
  input.selection = resolve(wanted_selection(settings, input.trace->model()), *input.trace,
                            static_cast<int>(blocks.size()));
  if (info.needs.policy || info.needs.policy_b) {
    input.policy_a = selected_replay(input, input.spec_a, info.needs, progress);
    if (input.spec_b) input.policy_b = selected_replay(input, *input.spec_b, info.needs, progress);
  }
  return made_from(info, input, progress);
}

}  // namespace kvloupe::figure
