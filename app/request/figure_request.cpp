#include "app/request/figure_request.h"
#include "analysis/policy/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analysis/base/core/error.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/policy_files.h"
#include "analysis/replay/replay.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/settings_in_words.h"

namespace kvloupe::request {

namespace {

using figure::ChoiceInfo;
using figure::ChoiceKind;
using figure::FigureInfo;
using figure::Selection;

/// The selection that the settings ask for, open ends and all.
Selection wanted_selection(const FigureSettings& settings, const Trace& trace) {
  Selection wanted = figure::default_selection(trace);
  if (settings.layer) wanted.layer = *settings.layer;
  const bool there = wanted.layer >= 0 && wanted.layer < trace.model().num_layers;
  const ModelInfo& model = there ? trace.layer_model(wanted.layer) : trace.model();
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

/// The part of a resolved selection that the figure reads.
Selection part_read(const Selection& resolved, const figure::Needs& needs, const Trace& trace) {
  Selection part;
  part.layer = figure::nearest_layer(trace, part.layer);
  if (needs.head) {
    part.layer = resolved.layer;
    part.head = resolved.head;
    part.query_head = resolved.query_head;
  }
  if (needs.step) part.step = resolved.step;
  if (needs.tokens) {
    part.first_token = resolved.first_token;
    part.last_token = resolved.last_token;
    if (part.first_token == 0 && part.last_token == trace.length() - 1) part.last_token = -1;
  }
  if (needs.token) part.token = resolved.token;
  return part;
}

/// The content of the files that these policies read.
std::string files_of(const FigureInfo& info, const FigureRequest& request) {
  std::string files;
  for (const PolicySpec& policy : policies_of(info, request)) files += policy_files(policy);
  return files;
}

}  // namespace

bool same_subject(const FigureRequest& a, const FigureRequest& b) {
  return a.figure == b.figure && a.inputs == b.inputs && a.choices == b.choices &&
         a.selection.layer == b.selection.layer && a.selection.head == b.selection.head &&
         a.selection.query_head == b.selection.query_head;
}

std::size_t hash_of(const FigureRequest& request) {
  const Selection& s = request.selection;
  const auto text = [](const auto& value) { return value ? value->text() : std::string(); };
  std::string all = fmt::format(
      "{}\n{} {} {} {} {} {} {}\n{}\n{}\n{}\n{} {}\n{}", request.figure, s.layer, s.head,
      s.query_head, s.step, s.first_token, s.last_token, s.token, text(request.policy_a),
      text(request.policy_b), text(request.budget), request.block,
      request.compression ? static_cast<int>(*request.compression) : -1, request.policy_files);
  for (const InputIdentity& input : request.inputs) all += '\n' + input.path + input.content;
  for (const auto& [name, value] : request.choices) all += '\n' + name + '=' + value;
  return std::hash<std::string>{}(all);
}

void check_trace_count(const FigureInfo& info, std::size_t count, const std::string& last) {
  const auto most = static_cast<std::size_t>(info.needs.most_traces);
  if (info.needs.evaluation) {
    if (count == 0) return;
    throw UsageError(fmt::format(
        "figure {} needs results of kvloupe-capture eval or rescue, or of kvloupe study",
        info.name));
  }
  if (const int fewest = info.needs.fewest_traces; count < static_cast<std::size_t>(fewest)) {
    throw UsageError(
        fmt::format("figure {} compares several traces; give at least {}", info.name, fewest));
  }
  if (count <= most) return;
  throw UsageError(
      most == 1 ? fmt::format("{}: figure {} reads one trace; give only one input", last, info.name)
                : fmt::format("{}: figure {} reads at most {} traces", last, info.name, most));
}

std::vector<std::shared_ptr<const Trace>> traces_read(const FigureInfo& info,
                                                      const FigureInputs& inputs) {
  if (info.needs.evaluation) return {};
  std::vector<std::shared_ptr<const Trace>> traces = inputs.traces;
  if (info.needs.both_loops && traces.size() == 1 && inputs.other_loop)
    traces.push_back(inputs.other_loop);
  return traces;
}

Missing missing(const FigureInfo& info, const FigureRequest& request) {
  if (info.needs.evaluation) return request.inputs.empty() ? Missing::evaluation : Missing::nothing;
  if (request.inputs.empty()) return Missing::trace;
  if (request.inputs.size() < static_cast<std::size_t>(info.needs.fewest_traces))
    return info.needs.both_loops ? Missing::other_loop : Missing::more_traces;
  return needs_of(info, request.choices).policy_b && !request.policy_b ? Missing::policy_b
                                                                       : Missing::nothing;
}

std::string unavailable(const FigureInfo& info, const FigureInputs& inputs) {
  if (info.unfit && inputs.evaluation) {
    const std::string why = info.unfit(*inputs.evaluation);
    return why.empty() ? why : inputs.evaluation->path.string() + ": " + why;
  }
  for (const auto& trace : traces_read(info, inputs)) {
    if (!info.unavailable) break;
    if (std::string why = info.unavailable(*trace); !why.empty()) return why;
  }
  return {};
}

bool draws_policy_b(const FigureInfo& info, const figure::Choices& choices) {
  const figure::Needs needs = needs_of(info, choices);
  if (needs.policy_b || needs.beside) return true;
  return std::any_of(info.choices.begin(), info.choices.end(), [&](const ChoiceInfo& one) {
    if (one.kind != ChoiceKind::policies) return false;
    const std::vector<std::string> items =
        figure::split_list(figure::choice(info, choices, one.name));
    return std::find(items.begin(), items.end(), "B") != items.end();
  });
}

FigureRequest make_request(const FigureInfo& info, const FigureSettings& settings,
                           const FigureInputs& inputs) {
  figure::check_choices(info, settings.choices);
  FigureRequest request;
  request.figure = info.name;
  for (const ChoiceInfo& one : info.choices) {
    const auto chosen = settings.choices.find(one.name);
    if (chosen != settings.choices.end() && chosen->second != one.values.front())
      request.choices.insert(*chosen);
  }
  const figure::Needs needs = needs_of(info, request.choices);
  if (needs.budget()) request.budget = settings.budget;
  if (needs.policies()) {
    request.policy_a = settings.policy;
    if (draws_policy_b(info, request.choices)) request.policy_b = settings.policy_b;
    if (!request.policy_b && needs.policy_b && settings.choose_policy_b) {
      const PolicySpec h2o = parse_policy(published_spec("h2o"));
      request.policy_b = settings.policy == h2o ? parse_policy("keydiff") : h2o;
    }
    request.block = settings.block;
    request.compression = settings.compression;
  }
  request.policy_files = files_of(info, request);
  if (needs.evaluation) {
    if (inputs.evaluation) {
      request.inputs = {{inputs.evaluation->path.string(), inputs.evaluation->identity}};
    }
    // Which heads there are only the results know: the figure refuses others.
    if (needs.head) {
      request.selection.layer = settings.layer.value_or(0);
      request.selection.head = settings.head.value_or(0);
    }
    return request;
  }
  const std::vector<std::shared_ptr<const Trace>> traces = traces_read(info, inputs);
  if (traces.size() > static_cast<std::size_t>(info.needs.most_traces))
    check_trace_count(info, traces.size(), traces.back()->path().string());
  for (const auto& trace : traces)
    request.inputs.push_back({trace->path().string(), trace->identity()});
  if (traces.empty()) return request;
  const Trace& trace = *traces.front();
  const bool any_block = needs.steps_of_replay() || !trace.run().closed_loop();
  const std::vector<Block> blocks =
      any_block ? replay_blocks(trace, settings.block, settings.compression) : trace.blocks();
  request.selection = part_read(
      figure::resolve(wanted_selection(settings, trace), trace, static_cast<int>(blocks.size())),
      needs, trace);
  return request;
}

const FigureRequest& RequestMaker::make(const FigureInfo& info, const FigureSettings& settings,
                                        const FigureInputs& inputs) {
  // A file that a policy reads may have changed.
  if (request_.figure == info.name && request_.policy_files.empty() && settings == settings_ &&
      inputs == inputs_) {
    return request_;
  }
  request_ = make_request(info, settings, inputs);
  settings_ = settings;
  inputs_ = inputs;
  return request_;
}

}  // namespace kvloupe::request
