#include "app/request/settings_in_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/choice.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/of_study.h"
#include "version.h"

namespace kvloupe::request {

namespace {

using figure::ChoiceInfo;
using figure::ChoiceKind;
using figure::FigureInfo;
using figure::FigureInput;

/// A choice in words: policies by their canonical specs, A and B by what they are; names of a study
/// as the file has them.
std::string choice_in_words(const FigureInput& input, const ChoiceInfo& one) {
  if (one.kind == ChoiceKind::name && input.evaluation)
    return names_meant(*input.info, input.choices, input.evaluation).at(one.name);
  if (one.kind != ChoiceKind::policies) return input.choice(one.name);
  std::vector<std::string> specs;
  for (const PolicySpec& policy : chosen_policies(input, one.name)) specs.push_back(policy.text());
  return fmt::format("{}", fmt::join(specs, ", "));
}

std::string names_of(const std::vector<std::shared_ptr<const Trace>>& traces) {
  std::vector<std::string> names;
  for (const auto& trace : traces) names.push_back(trace->path().filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_choice(const FigureInfo& info, ChoiceKind kind) {
  return std::any_of(info.choices.begin(), info.choices.end(),
                     [&](const ChoiceInfo& one) { return one.kind == kind; });
}

/// The policies that the figure compares, in its order.
std::vector<PolicySpec> compared_policies(const FigureInfo& info, const FigureRequest& request,
                                          const FigureInput& input) {
  for (const ChoiceInfo& one : info.choices) {
    if (one.kind == ChoiceKind::policies) return chosen_policies(input, one.name);
  }
  std::vector<PolicySpec> policies;
  for (const auto& policy : {request.policy_a, request.policy_b}) {
    if (policy) policies.push_back(*policy);
  }
  return policies;
}

/// "119"; of bytes "12MB (119 entries)".
std::string budget_in_words(const Trace& trace, const Budget& budget, const PolicySpec& policy) {
  const std::string entries = std::to_string(budget_entries(budget, trace, policy));
  return budget.in_bytes() ? budget.text() + " (" + entries + " entries)" : entries;
}

/// Of a budget in bytes, the entries of each policy, where they differ: "12MB: 119 entries under
/// keydiff, 312 under keydiff+quant(4)."
std::string bytes_in_words(const std::vector<PolicySpec>& policies, const FigureRequest& request,
                           const Trace& trace) {
  if (!request.budget || !request.budget->in_bytes()) return {};
  std::set<int> different;
  std::string text;
  for (const PolicySpec& policy : policies) {
    const int entries = budget_entries(*request.budget, trace, policy);
    different.insert(entries);
    text += fmt::format("{}{}{} under {}", text.empty() ? "" : ", ", entries,
                        text.empty() ? " entries" : "", policy.text());
  }
  return different.size() < 2 ? "" : request.budget->text() + ": " + text + ".";
}

}  // namespace

std::string terms_in_words(const FigureInfo& info, const FigureRequest& request,
                           const FigureInput& input) {
  if (!needs_of(info, request.choices).policies() || !input.trace ||
      figure::compresses_a_prefix(info))
    return "";
  const std::vector<PolicySpec> policies = compared_policies(info, request, input);
  std::string bytes =
      has_choice(info, ChoiceKind::budgets) ? "" : bytes_in_words(policies, request, *input.trace);
  const std::string terms =
      terms_of_comparison(policies, replay_compression(*input.trace, request.compression),
                          compresses_at_once(*input.trace, request.block, request.compression),
                          has_choice(info, ChoiceKind::blocks));
  return bytes.empty() ? terms : terms.empty() ? bytes : bytes + " " + terms;
}

std::vector<std::pair<std::string, std::string>> settings_in_words(const FigureInfo& info,
                                                                   const FigureRequest& request,
                                                                   const FigureInput& input) {
  std::vector<std::pair<std::string, std::string>> settings;
  const auto say = [&](const char* key, std::string value) {
    if (info.shows != nullptr && !info.shows(key, request.choices)) return;
    settings.emplace_back(key, std::move(value));
  };
  const figure::Needs needs = needs_of(info, request.choices);
  say("figure", info.name);
  if (needs.evaluation) {
    say("results", input.evaluation->path.filename().string());
    if (!input.evaluation->model.empty()) say("model", input.evaluation->model);
    const std::string budget = needs.budget() ? evaluated_budget(input) : "";
    if (!budget.empty()) say("budget", budget);
    if (needs.head) {
      say("layer", std::to_string(request.selection.layer));
      say("head", std::to_string(request.selection.head));
    }
  } else {
    const Trace& trace = *input.trace;
    say("trace", names_of(input.traces));
    say("model", trace.model().name);
    if (needs.replay()) {
      say("policy", request.policy_a->text());
      if (request.policy_b) say("policy_b", request.policy_b->text());
    }
    // Lists of budgets or blocks are written further below.
    const auto has_list = [&](ChoiceKind kind) {
      return !needs.replay() && has_choice(info, kind);
    };
    const bool own_budget =
        needs.replay() && has_trait(*request.policy_a, &PolicyTraits::budget_is_outcome);
    if (own_budget && input.policy_a)
      say("kept", reached_share(*input.policy_a) + " (set by the policy's threshold)");
    if (request.budget && !has_list(ChoiceKind::budgets) && (!own_budget || request.policy_b))
      say("budget", budget_in_words(trace, *request.budget, *request.policy_a));
    if (needs.policies() && trace.run().closed_loop() &&
        (request.policy_a->text() != trace.run().policy ||
         (request.budget &&
          budget_entries(*request.budget, trace, *request.policy_a) != trace.run().budget)))
      say("states",
          fmt::format("of the run with {}, N = {}", trace.run().policy, trace.run().budget));
    if (needs.policies() && !figure::compresses_a_prefix(info)) {
      if (!has_list(ChoiceKind::blocks))
        say("block", std::to_string(replay_block(trace, request.block)));
      const Compression compression = replay_compression(trace, request.compression);
      if (compression != Compression::regular) say("compression", compression_name(compression));
    }
    const figure::Selection& s = input.selection;
    if (needs.head) {
      say("layer", std::to_string(s.layer));
      say("head", std::to_string(s.head));
      if (s.query_head >= 0) say("query_head", std::to_string(s.query_head));
    }
    if (needs.step) say("step", std::to_string(s.step));
    if (needs.tokens) say("tokens", fmt::format("{}-{}", s.first_token, s.last_token));
    if (needs.token && s.token >= 0) say("token", std::to_string(s.token));
  }
  for (const ChoiceInfo& one : info.choices) say(one.name.c_str(), choice_in_words(input, one));
  if (std::string terms = terms_in_words(info, request, input); !terms.empty())
    say("comparison", std::move(terms));
  say("version", "kvloupe " KVLOUPE_VERSION);
  return settings;
}

std::vector<PolicySpec> policies_of(const FigureInfo& info, const FigureRequest& request) {
  std::vector<PolicySpec> policies;
  if (request.policy_a) policies.push_back(*request.policy_a);
  if (request.policy_b) policies.push_back(*request.policy_b);
  if (!request.policy_a) return policies;  // a list's A would be of nothing
  for (const ChoiceInfo& one : info.choices) {
    if (one.kind != ChoiceKind::policies) continue;
    for (PolicySpec& policy :
         figure::parse_policies(figure::choice(info, request.choices, one.name), *request.policy_a,
                                request.policy_b ? &*request.policy_b : nullptr)) {
      policies.push_back(std::move(policy));
    }
  }
  return policies;
}

}  // namespace kvloupe::request
