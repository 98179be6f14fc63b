#include "analysis/study/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/base/core/error.h"
#include "analysis/base/text/table.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_statistics.h"

namespace kvloupe {

namespace {
/// How values of a measure become losses between 0 and 1.
struct LossOf {
  bool less_from_one = false;  // 1 − the measure
  bool share = false;
  double largest = 1.0;
  bool over_full = false;

  double operator()(double value, double full) const {
    const auto loss = [&](double one) {
      return std::clamp((less_from_one ? 1.0 - one : one) / largest, 0.0, 1.0);
    };
    return over_full ? std::max(loss(value) - loss(full), 0.0) : loss(value);
  }
};

LossOf loss_of(const AdviceRequest& request) {
  const auto measure = find_study_measure(request.measure);
  if (!measure || measure->better == Better::neither) {
    throw UsageError("advise: measure " + request.measure +
                     " does not say whether more of it is better, so it is no loss");
  }
  if (!measure->share && measure->better == Better::larger) {
    throw UsageError("advise: measure " + request.measure +
                     " has no largest value to lose from; choose a share, or a measure that is "
                     "better where it is smaller");
  }
  if (!measure->share && !(request.largest > 0.0 && std::isfinite(request.largest))) {
    throw UsageError("advise: measure " + request.measure +
                     " has no upper limit, and a promise needs one; give --largest, and larger "
                     "losses count as that");
  }
  LossOf loss{.less_from_one = measure->better == Better::larger,
              .share = measure->share,
              .largest = measure->share ? 1.0 : request.largest};
  // Replays are measured against the full cache: theirs are losses beside it already.
  loss.over_full = request.over_full && measure->task != kReplayTask;
  return loss;
}

void check_numbers(const AdviceRequest& request, const LossOf& loss) {
  if (!(request.risk > 0.0 && request.risk < 1.0))
    throw UsageError("advise: the risk lies between 0 and 100 %, such as 5%");
  if (!(request.at_most > 0.0 && request.at_most < loss.largest)) {
    throw UsageError(
        fmt::format("advise: --at-most lies between 0 and {:g}, the largest loss", loss.largest));
  }
}

/// Places of the budgets by their mean entries, ascending.
std::vector<std::size_t> by_entries(const MeasureTable& table, std::vector<double>& entries) {
  const std::size_t prompts = table.prompts.size();
  entries.assign(table.budgets.size(), 0.0);
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < table.budgets.size(); ++b) {
    double sum = 0.0, count = 0.0;
    for (std::size_t prompt = 0; prompt < prompts; ++prompt) {
      const double one = table.entries[b * prompts + prompt];
      if (!std::isfinite(one)) continue;
      sum += one;
      ++count;
    }
    if (count == 0.0) continue;
    entries[b] = sum / count;
    order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return entries[a] < entries[b]; });
  return order;
}

/// Losses [budgets, prompts] of a policy, budgets in `order`, of prompts with all of them.
std::vector<std::vector<double>> losses_of(const MeasureTable& table, std::size_t policy,
                                           const std::vector<std::size_t>& order,
                                           const LossOf& loss) {
  std::vector<std::vector<double>> losses(order.size());
  std::vector<std::string> prompts;
  for (std::size_t prompt = 0; prompt < table.prompts.size(); ++prompt) {
    const double full = loss.over_full ? table.full[prompt] : 0.0;
    std::vector<double> own;
    for (const std::size_t b : order) own.push_back(table.value(policy, b, prompt));
    if (!std::isfinite(full) ||
        !std::all_of(own.begin(), own.end(), [](double value) { return std::isfinite(value); }))
      continue;
    for (std::size_t b = 0; b < own.size(); ++b) losses[b].push_back(loss(own[b], full));
    prompts.push_back(table.prompts[prompt]);
  }
  // Questions about one context are not drawn independently: a context counts once.
  for (std::vector<double>& own : losses) own = context_means(own, contexts_of(prompts));
  return losses;
}

PolicyAdvice advise_policy(const MeasureTable& table, std::size_t policy,
                           const std::vector<std::size_t>& order,
                           const std::vector<double>& entries, const LossOf& loss, double at_most,
                           double risk) {
  PolicyAdvice advice;
  advice.policy = table.policies[policy];
  const std::vector<std::vector<double>> losses = losses_of(table, policy, order, loss);
  advice.prompts = losses.empty() ? 0 : std::ssize(losses.front());
  if (advice.prompts == 0) return advice;
  advice.budgets.resize(order.size());
  std::vector<double> largest(losses.front().size(), 0.0);  // at this and all larger budgets
  bool promised = true, on_average = true;
  for (int b = static_cast<int>(order.size()) - 1; b >= 0; --b) {
    const std::vector<double>& own = losses[static_cast<std::size_t>(b)];
    BudgetRisk& one = advice.budgets[static_cast<std::size_t>(b)];
    for (std::size_t i = 0; i < own.size(); ++i) largest[i] = std::max(largest[i], own[i]);
    one.budget = table.budgets[order[static_cast<std::size_t>(b)]];
    one.entries = entries[order[static_cast<std::size_t>(b)]];
    one.mean = std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size()) *
               loss.largest;
    const MeanInterval interval = counted_share(own, loss.share);
    one.low = interval.low;
    one.high = interval.high;
    one.bound = mean_upper_bound(own, risk) * loss.largest;
    one.conformal = conformal_mean(largest) * loss.largest;
    promised = promised && one.bound <= at_most;
    on_average = on_average && one.conformal <= at_most;
    if (promised) advice.promised = b;
    if (on_average) advice.on_average = b;
  }
  for (std::size_t b = 1; b < advice.budgets.size(); ++b) {
    if (advice.budgets[b].mean > advice.budgets[b - 1].mean)
      advice.rises.push_back(static_cast<int>(b));
  }
  return advice;
}

std::string percent(double share) { return fmt::format("{:g} %", 100.0 * share); }

std::string remark(const PolicyAdvice& one) {
  std::string text;
  if (one.promised < 0) {
    const BudgetRisk& best = one.budgets.back();
    text = fmt::format("not reached with these prompts: at {}, the largest, the bound is {:.3g}",
                       best.budget, best.bound);
  } else if (one.promised == 0) {
    text = "smaller budgets were not tested";
  }
  for (const int rise : one.rises) {
    const auto b = static_cast<std::size_t>(rise);
    text += fmt::format("{}the mean loss rises from {} to {}", text.empty() ? "" : "; ",
                        one.budgets[b - 1].budget, one.budgets[b].budget);
  }
  return text;
}
}  // namespace

Advice advise(const StudyTable& study, const AdviceRequest& request) {
  const int measure = study.measure(request.measure);
  if (measure < 0) {
    throw UsageError("advise: the study has no measure " + in_one_line(request.measure) +
                     "; it has " +
                     in_one_line(fmt::format("{}", fmt::join(study.measures, ", ")), 400));
  }
  const LossOf loss = loss_of(request);
  check_numbers(request, loss);
  if (blocks_of(study, measure).empty())
    throw UsageError("advise: no value of " + request.measure + " is there yet");
  Advice advice;
  advice.measure = request.measure;
  advice.block = block_of(study, measure, request.block);
  advice.loss = (loss.less_from_one ? "1 − " : "") + request.measure;
  if (loss.over_full) advice.loss += " less that of the full cache, at least 0";
  const MeasureTable table = measure_table(study, measure, advice.block);
  advice.studied = prompts_of_task(study, find_study_measure(request.measure)->task, advice.block);
  if (loss.over_full && std::none_of(table.full.begin(), table.full.end(),
                                     [](double value) { return std::isfinite(value); })) {
    throw UsageError("advise: these results have no values of the full cache; leave --over-full");
  }
  advice.risk = request.together && !table.policies.empty()
                    ? request.risk / static_cast<double>(table.policies.size())
                    : request.risk;
  advice.needed = fewest_prompts(request.at_most / loss.largest, advice.risk);
  std::vector<double> entries;
  const std::vector<std::size_t> order = by_entries(table, entries);
  for (std::size_t policy = 0; policy < table.policies.size(); ++policy) {
    advice.policies.push_back(
        advise_policy(table, policy, order, entries, loss, request.at_most, advice.risk));
  }
  return advice;
}

MeanInterval counted_share(std::span<const double> values, bool share) {
  const long hits = std::count(values.begin(), values.end(), 1.0);
  const auto all = std::ssize(values);
  if (share && all > 0 && hits + std::count(values.begin(), values.end(), 0.0) == all)
    return wilson_share(hits, all);
  return {std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(all), kUnknown,
          kUnknown};
}

std::string left_out_text(const Advice& advice) {
  long most = 0;
  for (const PolicyAdvice& one : advice.policies)
    most = std::max(most, advice.studied - one.prompts);
  if (most == 0) return {};
  return fmt::format(
      "Up to {} of {} prompts are left out, because a run failed, is missing or has no value. If "
      "these lose more than the others, a promise may not hold.",
      most, advice.studied);
}

void require_enough_prompts(const Advice& advice, const AdviceRequest& request) {
  long most = 0;
  for (const PolicyAdvice& one : advice.policies) most = std::max(most, one.prompts);
  if (most >= advice.needed) return;
  throw UsageError(fmt::format(
      "advise: the study has {} prompt{} with all budgets, and a loss of at most {:g} at a risk of "
      "{} takes at least {}, even if none loses anything; add prompts, or ask for less",
      most, most == 1 ? "" : "s", request.at_most, percent(advice.risk), advice.needed));
}

std::string advice_markdown(const Advice& advice, const AdviceRequest& request) {
  Table table{.columns = {"policy", ">smallest budget", ">entries", ">mean loss", ">bound",
                          ">on average", ">prompts", "remark"}};
  const auto budget = [](const PolicyAdvice& one, int place) {
    return place < 0 ? std::string("none")
                     : in_one_line(one.budgets[static_cast<std::size_t>(place)].budget);
  };
  for (const PolicyAdvice& one : advice.policies) {
    if (one.budgets.empty()) continue;
    const BudgetRisk& at = one.shown();
    table.add({in_one_line(one.policy, 200), budget(one, one.promised),
               fmt::format("{:.0f}", at.entries), fmt::format("{:.3g}", at.mean),
               fmt::format("{:.3g}", at.bound), budget(one, one.on_average),
               one.prompts < advice.studied ? fmt::format("{} of {}", one.prompts, advice.studied)
                                            : std::to_string(one.prompts),
               remark(one)});
  }
  const std::string left_out = left_out_text(advice);
  return fmt::format(
      "Loss: {}, block {}. For a policy chosen beforehand, the expected loss at the budget named, "
      "on new prompts drawn like these, is at most {:g}; the risk that this is wrong is "
      "{}{}.\n\n{}{}{}\nOn average: the smallest budget by conformal risk control, whose expected "
      "loss is within the limit on average over sets of prompts like this one. Where a row has no "
      "budget, its numbers are those of the largest.\n",
      advice.loss, in_one_line(advice.block), request.at_most, percent(request.risk),
      request.together ? " for all policies together" : "", markdown_table(table),
      left_out.empty() ? "" : "\n" + left_out, left_out.empty() ? "" : "\n");
}

std::string advice_csv(const Advice& advice) {
  std::string text =
      "policy,budget,entries,prompts,mean_loss,bound,conformal,promised,on_average\n";
  for (const PolicyAdvice& one : advice.policies) {
    for (int b = 0; b < static_cast<int>(one.budgets.size()); ++b) {
      const BudgetRisk& at = one.budgets[static_cast<std::size_t>(b)];
      text += csv_line({Quoted{one.policy}, Quoted{at.budget}, at.entries, one.prompts, at.mean,
                        at.bound, at.conformal, long{one.promised >= 0 && b >= one.promised},
                        long{one.on_average >= 0 && b >= one.on_average}});
    }
  }
  return text;
}

}  // namespace kvloupe
