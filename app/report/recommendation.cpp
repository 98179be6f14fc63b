// The sentences that tell the reader what to do, and how far they hold.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/text/text.h"
#include "app/report/report.h"
#include "app/report/study_facts.h"

namespace kvloupe::report {

namespace {

std::string name_of(const PolicyAdvice& one) { return in_one_line(one.policy, 200); }

std::string mean_words(const BudgetRisk& at) { return with_interval({at.mean, at.low, at.high}); }

std::string budget_words(const BudgetRisk& at) {
  const std::string budget = in_one_line(at.budget);
  return at.budget.ends_with('%')
             ? fmt::format("{} of the prompt ({:.0f} entries per head on average)", budget,
                           at.entries)
             : budget + " entries per head";
}

std::string short_budget(const BudgetRisk& at) {
  const std::string budget = in_one_line(at.budget);
  return at.budget.ends_with('%') ? budget : budget + " entries";
}

/// "5 %", "5 % for all 7 policies together".
std::string risk_words(const Advice& advice, const AdviceRequest& request) {
  const std::string risk = fmt::format("{:g} %", 100.0 * request.risk);
  const std::size_t count = advice.policies.size();
  return count > 1 && request.together ? fmt::format("{} for all {} policies together", risk, count)
                                       : risk;
}

/// The limits of the result: it says nothing about other kinds of prompts.
std::string limits(const Advice& advice, const std::string& prompts, bool promise, bool replays) {
  std::string text = fmt::format(
      "{} for prompts drawn like these ({}), for this model{}, and not for other tasks, longer "
      "prompts or other models",
      promise ? "This holds" : "All numbers are", prompts,
      advice.block == "capture" ? "" : " and " + block_words(advice.block));
  if (replays)
    text +=
        "; the loss is that of replays of a run with the full cache, not of the model's own "
        "answers, so run the policy in the model (kvloupe-capture study) before you rely on it";
  return text + ".";
}

long most_prompts(const Advice& advice) {
  long most = 0;
  for (const PolicyAdvice& one : advice.policies) most = std::max(most, one.prompts);
  return most;
}

/// The least that these prompts can promise: the bounds of all policies at their largest budget
/// hold together, whatever the limit.
std::string least_promise(const Advice& advice, double largest) {
  const int place = closest_policy(advice);
  if (place < 0) return "no prompt has values at all budgets yet";
  const PolicyAdvice& one = advice.policies[static_cast<std::size_t>(place)];
  const BudgetRisk& at = one.budgets.back();
  std::vector<std::string> names;  // of all that tie
  for (const PolicyAdvice& other : advice.policies) {
    if (!other.budgets.empty() && other.budgets.back().bound == at.bound)
      names.push_back(name_of(other));
  }
  std::string text = fmt::format(
      "the smallest bound at the largest budget is {:.3g}, of {} at {} (mean loss {} on {} "
      "prompts{})",
      at.bound, short_list(names, 3), short_budget(at), mean_words(at), one.prompts,
      names.size() > 1 ? ", the same for each" : "");
  const double limit = largest * std::ceil(100.0 * at.bound / largest) / 100.0;
  if (limit < largest) text += fmt::format(", so this study can promise --at-most {:.3g}", limit);
  return text;
}

std::vector<std::string> promised(const Advice& advice, const AdviceRequest& request, int place) {
  const PolicyAdvice& one = advice.policies[static_cast<std::size_t>(place)];
  const BudgetRisk& at = one.shown();
  std::vector<std::string> ties{name_of(one)}, others;  // promised the same budget
  for (const PolicyAdvice& other : advice.policies) {
    if (&other == &one || other.promised < 0 || other.shown().budget != at.budget) continue;
    (other.shown().bound == at.bound ? ties : others).push_back(name_of(other));
  }
  const bool tie = ties.size() > 1;
  const std::string decision = fmt::format(
      "Use {} with a budget of {}: the expected loss ({}) on new prompts is then at most {:g}, and "
      "the risk that any promise of this report is wrong is at most {}.",
      tie ? "any of " + short_list(ties, 4) + " (they tie)" : ties.front(), budget_words(at),
      advice.loss, request.at_most, risk_words(advice, request));
  std::string evidence = fmt::format(
      "On the {} prompts with values at all budgets {} mean loss is {}, and the bound of the "
      "expected loss is {:.3g}; ",
      one.prompts, tie ? "their" : "its", mean_words(at), at.bound);
  if (one.promised == 0) {
    evidence += "smaller budgets were not tested";
  } else {
    const BudgetRisk& below = one.budgets[static_cast<std::size_t>(one.promised) - 1];
    evidence += fmt::format("at {}, the next smaller budget, the bound is {:.3g}, above the limit",
                            short_budget(below), below.bound);
  }
  if (!others.empty()) {
    evidence += fmt::format(
        "; the same budget is promised with {} as well, and this study does not say which of them "
        "is best",
        short_list(others, 3));
  }
  return {decision, evidence + "."};
}

std::vector<std::string> too_few(const Advice& advice, const AdviceRequest& request,
                                 double largest) {
  const long prompts = most_prompts(advice);
  std::vector<std::string> sentences{
      fmt::format("This study cannot promise a budget: it has {} prompt{} with all budgets, and an "
                  "expected loss ({}) of at most {:g} at a risk of {} takes at least {} prompts, "
                  "even if none of them "
                  "loses anything.",
                  prompts, prompts == 1 ? "" : "s", advice.loss, request.at_most,
                  risk_words(advice, request), advice.needed)};
  sentences.push_back("As it is, " + least_promise(advice, largest) +
                      "; more prompts make a smaller limit possible.");
  return sentences;
}

std::vector<std::string> not_reached(const Advice& advice, const AdviceRequest& request,
                                     double largest) {
  const PolicyAdvice& one = advice.policies[static_cast<std::size_t>(closest_policy(advice))];
  const BudgetRisk& at = one.budgets.back();
  return {fmt::format("No budget of this study can be recommended: at the largest budget no policy "
                      "has a bound of the expected loss ({}) of at most {:g}, at a risk of {}.",
                      advice.loss, request.at_most, risk_words(advice, request)),
          fmt::format("As it is, {}; {}.", least_promise(advice, largest),
                      at.mean < request.at_most
                          ? "the mean is within the limit, so more prompts may bring the bound "
                            "within the limit"
                          : "the mean is not within the limit, so more prompts alone will hardly "
                            "help, but larger budgets may")};
}

/// The place of the policy with the smallest key of those that fit; −1: none fits.
template <typename Fits, typename Key>
int least(const Advice& advice, const Fits& fits, const Key& key) {
  const PolicyAdvice* best = nullptr;
  for (const PolicyAdvice& one : advice.policies)
    if (fits(one) && (best == nullptr || key(one) < key(*best))) best = &one;
  return best == nullptr ? -1 : static_cast<int>(best - advice.policies.data());
}

}  // namespace

int closest_policy(const Advice& advice) {
  return least(
      advice, [](const PolicyAdvice& one) { return !one.budgets.empty(); },
      [](const PolicyAdvice& one) { return one.budgets.back().bound; });
}

int recommended_policy(const Advice& advice) {
  return least(
      advice, [](const PolicyAdvice& one) { return one.promised >= 0; },
      [](const PolicyAdvice& one) { return std::pair(one.shown().entries, one.shown().bound); });
}

std::vector<std::string> recommendation_of(const Advice& advice, const AdviceRequest& request,
                                           const std::string& prompts, bool replays) {
  const int place = recommended_policy(advice);
  const double largest = request.largest > 0.0 ? request.largest : 1.0;
  std::vector<std::string> sentences;
  if (place >= 0) {
    sentences = promised(advice, request, place);
  } else if (most_prompts(advice) < advice.needed) {
    sentences = too_few(advice, request, largest);
  } else {
    sentences = not_reached(advice, request, largest);
  }
  sentences.push_back(limits(advice, prompts, place >= 0, replays));
  return sentences;
}

}  // namespace kvloupe::report
