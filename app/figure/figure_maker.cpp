#include "app/figure/figure_maker.h"

#include <fmt/format.h>

#include "analysis/error.h"
#include "app/figure/figure_catalog.h"
#include "version.h"

namespace kvloupe::figure {

std::vector<std::pair<std::string, std::string>> settings_in_words(const FigureInfo& info,
                                                                   const FigureInput& input) {
  std::vector<std::pair<std::string, std::string>> settings;
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  const auto say = [&](const char* key, std::string value) {
    settings.emplace_back(key, std::move(value));
  };
  say("figure", info.name);
  say("trace", trace.path().filename().string());
  say("model", trace.model().name);
  if (input.policy_a) {
    say("policy", input.policy_a->policy);
    if (input.policy_b) say("policy_b", input.policy_b->policy);
    say("budget", std::to_string(input.policy_a->budget));
    say("block", std::to_string(input.policy_a->block));
  }
  if (info.needs.head) {
    say("layer", std::to_string(s.layer));
    say("head", std::to_string(s.head));
    if (s.query_head >= 0) say("query_head", std::to_string(s.query_head));
  }
  if (info.needs.step) say("step", std::to_string(s.step));
  if (info.needs.tokens) say("tokens", fmt::format("{}-{}", s.first_token, s.last_token));
  for (const ChoiceInfo& one : info.choices)
    say(one.name.c_str(), choice(info, input.choices, one.name));
  say("version", "kvloupe " KVLOUPE_VERSION);
  return settings;
}

std::shared_ptr<const Replay> FigureMaker::replay_of(const std::string& policy,
                                                     const FigureSettings& settings,
                                                     const Needs& needs, const Selection& selection,
                                                     Progress& progress) {
  ReplayRequest request;
  request.policy = parse_policy(policy);
  request.budget = parse_budget(settings.budget).resolve(trace_->run().prompt_length);
  request.block = settings.block;
  if (!needs.all_layers) request.layers = {selection.layer};
  request.metrics = needs.metrics;
  if (needs.scores) {
    request.scores_layer = selection.layer;
    request.scores_head = selection.head;
  }
  std::shared_ptr<const Replay>& kept = replays_[request.key()];
  if (!kept) kept = std::make_shared<const Replay>(replay(*trace_, request, progress));
  return kept;
}

MadeFigure FigureMaker::make(const FigureInfo& info, const FigureSettings& settings,
                             Progress& progress) {
  check_choices(info, settings.choices);
  if (const std::string why = info.unavailable(*trace_); !why.empty()) {
    throw WorkError("figure " + info.name + ": " + why);
  }
  const ModelInfo& model = trace_->model();
  FigureInput input;
  input.trace = trace_;
  input.choices = settings.choices;
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
  if (settings.tokens) std::tie(wanted.first_token, wanted.last_token) = *settings.tokens;
  // Also where no policy is needed: a wrong spec is an error, whatever the figure.
  const PolicySpec policy = parse_policy(settings.policy);
  if (!settings.policy_b.empty()) parse_policy(settings.policy_b);
  parse_budget(settings.budget);
  const std::vector<Block> blocks = info.needs.policy || info.needs.step
                                        ? replay_blocks(*trace_, settings.block)
                                        : trace_->blocks();
  input.selection = resolve(wanted, *trace_, static_cast<int>(blocks.size()));
  if (info.needs.policy) {
    input.policy_a = replay_of(settings.policy, settings, info.needs, input.selection, progress);
    if (!settings.policy_b.empty()) {
      input.policy_b =
          replay_of(settings.policy_b, settings, info.needs, input.selection, progress);
    }
  }

  MadeFigure made;
  made.figure = info.compute(input, progress);
  made.settings = settings_in_words(info, input);
  return made;
}

}  // namespace kvloupe::figure
