#include "analysis/study/head_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/math/numeric/splitmix.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/study/study_measures.h"

namespace kvloupe {

namespace {
/// So many steps at most between the smallest and the largest number of entries.
constexpr double kSteps = 1000.0;
/// A head is changed from this distance to the budget on, as a share of the budget.
constexpr double kChanged = 0.1;

/// Whether a part shares a given number of entries among heads or layers.
bool shares_entries(const PolicyEntry& entry) {
  return entry.kind() == PartKind::allocation && !entry.traits.budget_is_outcome;
}

/// Whether it does so by the same rule for all prompts, from the number of layers alone.
bool shares_by_rule(const PolicyEntry& entry) {
  return entry.as<LayerBudgetBuilder>() != nullptr && !entry.traits.reads_sequence;
}

/// Whether a policy is this one with one modifier more, which shares the entries.
bool shares_otherwise(std::string_view policy, const std::string& base) {
  if (!policy.starts_with(base + "+")) return false;
  policy.remove_prefix(base.size() + 1);
  if (policy.find('+') != std::string_view::npos) return false;
  const PolicyEntry* entry = find_policy(policy.substr(0, policy.find('(')));
  return entry != nullptr && shares_entries(*entry);
}

/// The losses by head of one policy under the study's uniform budgets.
struct Losses {
  std::vector<HeadMeasureTable::Head> heads;
  std::vector<std::string> prompts;
  std::vector<double> entries;  // [budgets] ascending
  double length = kUnknown;     // tokens of a prompt, the mean, where a budget is a share
  std::vector<double> values;   // [prompts][budgets][heads]
  std::vector<std::vector<double>> own_entries;  // [prompts][budgets]

  double value(std::size_t prompt, std::size_t budget, std::size_t head) const {
    return values[(prompt * entries.size() + budget) * heads.size() + head];
  }
};

std::string measures_by_head(const StudyTable& study) {
  std::string names;
  for (std::size_t m = 0; m < study.measures.size(); ++m) {
    const auto known = find_study_measure(study.measures[m]);
    if (study.by_head[m] == 0 || !known || known->better != Better::smaller) continue;
    names += (names.empty() ? "" : ", ") + in_one_line(study.measures[m]);
  }
  return names.empty() ? "none" : names;
}

/// Parts of a change are lengths; squares of lengths add up.
bool is_length(const std::string& measure) { return measure.ends_with("_residual_part"); }

std::size_t policy_in(const MeasureTable& table, const std::string& policy) {
  const auto found = std::find(table.policies.begin(), table.policies.end(), policy);
  if (found != table.policies.end())
    return static_cast<std::size_t>(found - table.policies.begin());
  throw UsageError(fmt::format(
      "advise --heads: the study has no replays of {} with {}; it has {}", in_one_line(policy),
      table.measure, in_one_line(fmt::format("{}", fmt::join(table.policies, ", ")), 300)));
}

/// The share that a budget is of the prompt; NaN for a count and for bytes.
double share_of(const std::string& budget) {
  const Budget parsed = parse_budget(budget);
  const auto* share = std::get_if<Percent>(&parsed.value);
  return share == nullptr ? kUnknown : share->value / 100.0;
}

/// Whether every prompt has the same heads: traces of one model.
void check_one_model(const HeadMeasureTable& table, const std::vector<std::string>& prompts) {
  std::vector<std::size_t> counts(prompts.size(), 0);
  for (std::size_t h = 0; h < table.heads.size(); ++h) {
    for (std::size_t p = 0; p < prompts.size(); ++p)
      counts[p] += std::isnan(table.values[h * prompts.size() + p]) ? 0 : 1;
  }
  std::size_t first = 0;
  while (first < counts.size() && counts[first] == 0) ++first;
  for (std::size_t p = first; p < counts.size(); ++p) {
    if (counts[p] == 0 || counts[p] == counts[first]) continue;
    throw UsageError(fmt::format(
        "advise --heads: the traces are of models of different shapes: {} has {} heads with values "
        "and {} has {}; a table is for one model, so make a study for each",
        in_one_line(prompts[first]), counts[first], in_one_line(prompts[p]), counts[p]));
  }
}

/// The place and number of entries of each budget, by entries.
Losses losses_of(const StudyTable& study, const MeasureTable& table, const std::string& policy) {
  const std::size_t place = policy_in(table, policy);
  Losses losses;
  std::vector<HeadMeasureTable> by_budget;
  for (std::size_t b = 0; b < table.budgets.size(); ++b) {
    by_budget.push_back(head_table(study, table, place, b));
    check_one_model(by_budget.back(), table.prompts);
    if (losses.heads.empty()) losses.heads = by_budget.back().heads;
  }
  const std::size_t all = table.prompts.size();
  std::vector<std::size_t> complete;
  for (std::size_t p = 0; p < all; ++p) {
    bool whole = true;
    for (std::size_t b = 0; b < by_budget.size(); ++b) {
      whole =
          whole && by_budget[b].heads == losses.heads && std::isfinite(table.entries[b * all + p]);
      for (std::size_t h = 0; whole && h < losses.heads.size(); ++h)
        whole = std::isfinite(by_budget[b].values[h * all + p]);
    }
    if (whole) complete.push_back(p);
  }
  if (complete.empty()) {
    throw UsageError(fmt::format(
        "advise --heads: no prompt has values of {} by head under {} at every budget ({}); let the "
        "study finish",
        table.measure, in_one_line(policy), fmt::join(table.budgets, ", ")));
  }
  const auto mean_entries = [&](std::size_t b) {
    double sum = 0.0;
    for (const std::size_t p : complete) sum += table.entries[b * all + p];
    return sum / static_cast<double>(complete.size());
  };
  std::vector<std::size_t> order(table.budgets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return mean_entries(a) < mean_entries(b); });
  std::vector<std::size_t> budgets;  // two spellings of one budget are one
  for (const std::size_t b : order) {
    const double entries = mean_entries(b);
    const double share = share_of(table.budgets[b]);
    if (std::isfinite(share) && share > 0.0) losses.length = entries / share;
    if (!losses.entries.empty() && entries <= losses.entries.back()) continue;
    losses.entries.push_back(entries);
    budgets.push_back(b);
  }
  const bool square = is_length(table.measure);
  for (const std::size_t p : complete) {
    losses.prompts.push_back(table.prompts[p]);
    losses.own_entries.emplace_back();
    for (const std::size_t b : budgets) {
      losses.own_entries.back().push_back(table.entries[b * all + p]);
      for (std::size_t h = 0; h < losses.heads.size(); ++h) {
        const double value = by_budget[b].values[h * all + p];
        losses.values.push_back(square ? value * value : value);
      }
    }
  }
  return losses;
}

/// Each head's mean loss over some prompts (a prompt may count several times), by entries. All the
/// tokens of a prompt lose nothing.
std::vector<LossCurve> mean_curves(const Losses& losses, const std::vector<std::size_t>& prompts) {
  const std::size_t budgets = losses.entries.size(), heads = losses.heads.size();
  LossCurve none{losses.entries, std::vector<double>(budgets, 0.0)};
  std::vector<LossCurve> curves(heads, none);
  const double part = 1.0 / static_cast<double>(prompts.size());
  for (const std::size_t p : prompts) {
    for (std::size_t b = 0; b < budgets; ++b) {
      for (std::size_t h = 0; h < heads; ++h) curves[h].losses[b] += part * losses.value(p, b, h);
    }
  }
  if (losses.length > losses.entries.back() * (1.0 + 1e-9)) {
    for (LossCurve& curve : curves) {
      curve.entries.push_back(losses.length);
      curve.losses.push_back(0.0);
    }
  }
  return curves;
}

double sum_at(const std::vector<LossCurve>& curves, const HeadEntries& entries) {
  double sum = 0.0;
  for (std::size_t h = 0; h < curves.size(); ++h) sum += curves[h].at(entries[h]);
  return sum;
}

HeadEntries best_table(const std::vector<LossCurve>& curves, double mean, double least) {
  std::vector<LossCurve> convex;
  convex.reserve(curves.size());
  for (const LossCurve& curve : curves) convex.push_back(convex_curve(curve));
  const double step = (curves.front().entries.back() - least) / kSteps;
  return share_entries(convex, mean, least, step);
}

/// Name and numbers of a sharing whose entries are the same on every prompt.
HeadSharing fixed_sharing(std::string name, const std::vector<LossCurve>& curves,
                          const HeadEntries& entries, double mean) {
  HeadSharing sharing{
      .name = std::move(name), .foretold = sum_at(curves, entries), .measured = kUnknown};
  const auto heads = static_cast<double>(entries.size());
  for (const double one : entries) {
    sharing.at_least = sharing.at_least || one < curves.front().entries.front() * (1.0 - 1e-9);
    sharing.mean_entries += one / heads;
    sharing.moved += 0.5 * std::abs(one - mean) / (heads * mean);
    sharing.changed += std::abs(one - mean) > kChanged * mean ? 1.0 / heads : 0.0;
  }
  return sharing;
}

/// The mean over the prompts of the sum of the losses by head in the replays of a policy and
/// budget; NaN where a prompt has none.
double measured_loss(const StudyTable& study, const MeasureTable& table, const Losses& losses,
                     const std::string& policy, const std::string& budget) {
  const auto p = std::find(table.policies.begin(), table.policies.end(), policy);
  const auto b = std::find(table.budgets.begin(), table.budgets.end(), budget);
  if (p == table.policies.end() || b == table.budgets.end()) return kUnknown;
  const HeadMeasureTable heads =
      head_table(study, table, static_cast<std::size_t>(p - table.policies.begin()),
                 static_cast<std::size_t>(b - table.budgets.begin()));
  if (heads.heads != losses.heads) return kUnknown;
  const bool square = is_length(table.measure);
  double sum = 0.0;
  for (const std::string& prompt : losses.prompts) {
    const auto at = static_cast<std::size_t>(
        std::find(table.prompts.begin(), table.prompts.end(), prompt) - table.prompts.begin());
    for (std::size_t h = 0; h < heads.heads.size(); ++h) {
      const double value = heads.values[h * table.prompts.size() + at];
      sum += square ? value * value : value;
    }
  }
  return sum / static_cast<double>(losses.prompts.size());
}

/// A policy of the study whose entries by head are in it (measure retained), on every prompt.
/// Nothing where they are not.
std::vector<HeadSharing> studied_sharings(const StudyTable& study, const MeasureTable& table,
                                          const Losses& losses,
                                          const std::vector<LossCurve>& curves,
                                          const HeadAdvice& advice) {
  std::vector<HeadSharing> sharings;
  const int measure = study.measure("retained");
  if (measure < 0 || study.by_head[static_cast<std::size_t>(measure)] == 0) return sharings;
  const MeasureTable retained = measure_table(study, measure, table.block);
  const auto budget = std::find(retained.budgets.begin(), retained.budgets.end(), advice.budget);
  if (budget == retained.budgets.end()) return sharings;
  const auto b = static_cast<std::size_t>(budget - retained.budgets.begin());
  const std::size_t all = retained.prompts.size();
  for (std::size_t p = 0; p < retained.policies.size(); ++p) {
    if (!shares_otherwise(retained.policies[p], advice.tried)) continue;
    const HeadMeasureTable kept = head_table(study, retained, p, b);
    if (kept.heads != losses.heads) continue;
    HeadSharing mean{.name = retained.policies[p]};
    bool whole = true;
    for (const std::string& prompt : losses.prompts) {
      const auto at = static_cast<std::size_t>(
          std::find(retained.prompts.begin(), retained.prompts.end(), prompt) -
          retained.prompts.begin());
      whole = whole && at < all;
      if (!whole) break;
      // As if the prompt had the mean length.
      const double scale = advice.entries / retained.entries[b * all + at];
      HeadEntries entries;
      for (std::size_t h = 0; h < kept.heads.size(); ++h)
        entries.push_back(kept.values[h * all + at] * scale);
      const HeadSharing one = fixed_sharing("", curves, entries, advice.entries);
      const double part = 1.0 / static_cast<double>(losses.prompts.size());
      mean.foretold += part * one.foretold;
      mean.at_least = mean.at_least || one.at_least;
      mean.mean_entries += part * one.mean_entries;
      mean.moved += part * one.moved;
      mean.changed += part * one.changed;
    }
    if (!whole || !std::isfinite(mean.foretold)) continue;
    mean.measured = measured_loss(study, table, losses, mean.name, advice.budget);
    sharings.push_back(std::move(mean));
  }
  return sharings;
}

/// The entries by a rule that is the same for all prompts (shares_by_rule()).
HeadEntries entries_by_rule(const PolicyEntry& rule, const HeadAdvice& advice, double length) {
  SpecPart part{rule.name, {}};
  for (const ParameterInfo& one : rule.parameters)
    part.arguments.emplace_back(one.name, one.default_value);
  LayerContext context;
  context.budget = static_cast<int>(std::lround(advice.entries));
  std::vector<int> layers;
  for (const HeadMeasureTable::Head& head : advice.heads) {
    if (layers.empty() || layers.back() != head.layer) layers.push_back(head.layer);
  }
  context.model.num_layers = static_cast<int>(layers.size());
  HeadEntries entries;
  for (const HeadMeasureTable::Head& head : advice.heads) {
    context.layer =
        static_cast<int>(std::find(layers.begin(), layers.end(), head.layer) - layers.begin());
    entries.push_back(rule.as<LayerBudgetBuilder>()->budget(part, context,
                                                            static_cast<int>(std::lround(length))));
  }
  return entries;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Tables from resampled prompts: their agreement, and the loss that they save on the prompts left
/// out.
void resample(const Losses& learnt, const Losses& tried, double least, HeadAdvice& advice) {
  const std::size_t count = learnt.prompts.size(), heads = learnt.heads.size();
  std::vector<std::vector<double>> tables(heads);
  const HeadEntries same(heads, advice.entries);
  std::vector<double> saved;
  std::uint64_t state = splitmix(1);
  for (int i = 0; i < kHeadResamples; ++i) {
    std::vector<std::size_t> drawn, left_out;
    std::vector<char> is_drawn(count, 0);
    for (std::size_t j = 0; j < count; ++j) {
      state += kSplitmixStep;
      drawn.push_back(((splitmix_output(state) >> 32U) * count) >> 32U);
      is_drawn[drawn.back()] = 1;
    }
    // By name, because the policy that is tried may have values of other prompts.
    for (std::size_t p = 0; p < tried.prompts.size(); ++p) {
      const auto at = std::find(learnt.prompts.begin(), learnt.prompts.end(), tried.prompts[p]);
      if (at == learnt.prompts.end() ||
          is_drawn[static_cast<std::size_t>(at - learnt.prompts.begin())] == 0)
        left_out.push_back(p);
    }
    const HeadEntries table = best_table(mean_curves(learnt, drawn), advice.entries, least);
    double moved = 0.0;
    for (std::size_t h = 0; h < heads; ++h) {
      tables[h].push_back(table[h]);
      moved += 0.5 * std::abs(table[h] - advice.table[h]);
    }
    advice.same_entries +=
        (1.0 - moved / (advice.entries * static_cast<double>(heads))) / kHeadResamples;
    if (left_out.empty()) continue;
    const std::vector<LossCurve> others = mean_curves(tried, left_out);
    const double uniform = sum_at(others, same);
    if (uniform > 0.0) saved.push_back(1.0 - sum_at(others, table) / uniform);
  }
  for (const std::vector<double>& own : tables) {
    advice.low.push_back(quantile(own, 0.025));
    advice.high.push_back(quantile(own, 0.975));
  }
  advice.saved = saved.empty() ? kUnknown : quantile(saved, 0.5);
  advice.saved_low = saved.empty() ? kUnknown : quantile(saved, 0.025);
  advice.saved_high = saved.empty() ? kUnknown : quantile(saved, 0.975);
}

MeasureTable table_of(const StudyTable& study, const HeadRequest& request) {
  const int measure = study.measure(request.measure);
  if (measure < 0 || study.by_head[static_cast<std::size_t>(measure)] == 0) {
    throw UsageError(fmt::format(
        "advise --heads: the study has no values of {} by head; losses by head in it: {}. Give one "
        "with --loss, or repeat the study with \"measures\": [\"{}\", \"retained\"] and "
        "\"reduce\": \"steps\"",
        in_one_line(request.measure), measures_by_head(study), HeadRequest{}.measure));
  }
  const auto known = find_study_measure(request.measure);
  if (!known || known->better != Better::smaller || known->task != kReplayTask) {
    throw UsageError(fmt::format(
        "advise --heads: {} is no loss of a head in a replay; losses by head in the study: {}",
        in_one_line(request.measure), measures_by_head(study)));
  }
  return measure_table(study, measure, block_of(study, measure, request.block));
}

/// The budget in entries per head, the mean over the prompts.
double asked_entries(const HeadRequest& request, const Losses& losses) {
  const Budget budget = parse_budget(request.budget);
  const bool share = std::holds_alternative<Percent>(budget.value);
  if (budget.in_bytes() || (share && std::isnan(losses.length))) {
    throw UsageError(fmt::format(
        "advise --heads: --budget {} is {}, and the study's budgets are entries; give a number "
        "from {:.0f} to {:.0f}{}",
        request.budget, share ? "a share" : "in bytes", losses.entries.front(),
        losses.entries.back(), std::isnan(losses.length) ? "" : ", or a share such as 20%"));
  }
  const double entries = share ? share_of(request.budget) * losses.length
                               : static_cast<double>(std::get<long>(budget.value));
  const double most = std::isnan(losses.length) ? losses.entries.back() : losses.length;
  if (losses.entries.size() < 2 || !(entries >= losses.entries.front() + 1.0) ||
      !(entries < most * (1.0 - 1e-9))) {
    throw UsageError(
        fmt::format("advise --heads: --budget {} is {:.0f} entries, and the study has budgets of "
                    "{:.0f} entries; "
                    "it takes at least two budgets, one of them smaller than --budget",
                    request.budget, entries, fmt::join(losses.entries, ", ")));
  }
  return entries;
}
}  // namespace

HeadAdvice advise_heads(const StudyTable& study, const HeadRequest& request) {
  if (!(request.floor >= 0.0 && request.floor < 1.0))
    throw UsageError("advise --heads: --floor is a share of the budget from 0 to under 100 %");
  const MeasureTable table = table_of(study, request);
  HeadAdvice advice;
  advice.measure = table.measure;
  advice.loss = is_length(table.measure) ? "the square of " + table.measure : table.measure;
  advice.block = table.block;
  advice.budget = request.budget;
  advice.policy = request.policy.empty() ? table.policies.front() : request.policy;
  advice.tried = request.tried.empty() ? advice.policy : request.tried;
  const Losses learnt = losses_of(study, table, advice.policy);
  const Losses tried =
      advice.tried == advice.policy ? learnt : losses_of(study, table, advice.tried);
  if (tried.heads != learnt.heads)
    throw UsageError("advise --heads: " + in_one_line(advice.tried) + " has values of other heads");
  advice.prompts = std::ssize(learnt.prompts);
  advice.studied = prompts_of_task(study, kReplayTask, table.block);
  advice.measured = learnt.entries;
  advice.heads = learnt.heads;
  advice.entries = asked_entries(request, learnt);
  advice.least = std::max(learnt.entries.front(), request.floor * advice.entries);

  std::vector<std::size_t> all(learnt.prompts.size()), all_tried(tried.prompts.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::iota(all_tried.begin(), all_tried.end(), std::size_t{0});
  advice.table = best_table(mean_curves(learnt, all), advice.entries, advice.least);
  resample(learnt, tried, advice.least, advice);

  const std::vector<LossCurve> curves = mean_curves(tried, all_tried);
  const auto add = [&](const char* name, const HeadEntries& entries) {
    advice.sharings.push_back(fixed_sharing(name, curves, entries, advice.entries));
  };
  add("uniform", HeadEntries(advice.heads.size(), advice.entries));
  advice.sharings.back().measured = measured_loss(study, table, tried, advice.tried, advice.budget);
  add("this table", advice.table);
  if (advice.tried != advice.policy)
    add("the table learnt from the policy tried",
        best_table(curves, advice.entries, std::max(tried.entries.front(), advice.least)));
  std::vector<HeadSharing> studied = studied_sharings(study, table, tried, curves, advice);
  for (const PolicyEntry& entry : policy_catalog()) {
    if (!shares_entries(entry) || entry.traits.fixes_places) continue;
    const std::string name = advice.tried + "+" + entry.name;
    if (std::any_of(studied.begin(), studied.end(),
                    [&](const HeadSharing& one) { return one.name == name; }))
      continue;  // its own replays say more
    if (!shares_by_rule(entry)) {
      advice.missing.push_back(name);
    } else if (std::isfinite(learnt.length)) {
      add(entry.name.c_str(), entries_by_rule(entry, advice, learnt.length));
    }
  }
  std::move(studied.begin(), studied.end(), std::back_inserter(advice.sharings));
  return advice;
}

}  // namespace kvloupe
