// Budgets with a promise: the bounds beside the formulas, and how often a promise holds.

#include "analysis/study/advice.h"
#include "analysis/base/text/unknown.h"
#include "analysis/study/study_statistics.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// P(Bin(count, p) ≤ most) by the recurrence of the probabilities, not by their logarithms.
double naive_binomial(long most, long count, double p) {
  double one = std::pow(1.0 - p, static_cast<double>(count)), sum = 0.0;
  for (long k = 0; k <= most && k <= count; ++k) {
    sum += one;
    one *= static_cast<double>(count - k) / static_cast<double>(k + 1) * p / (1.0 - p);
  }
  return sum;
}

TEST(RiskBound, TheBinomialBoundLeavesTheRisk) {
  EXPECT_NEAR(binomial_upper_bound(0, 59, 0.05), 1.0 - std::pow(0.05, 1.0 / 59.0), 1e-12);
  EXPECT_NEAR(binomial_upper_bound(3, 20, 0.05), 0.3436641, 1e-6);  // the table of Clopper, Pearson
  EXPECT_EQ(binomial_upper_bound(7, 7, 0.05), 1.0);
  for (const long count : {1L, 10L, 100L, 400L}) {
    for (const double risk : {0.01, 0.05, 0.3}) {
      for (long wrong = 0; 2 * wrong < count; wrong += 1 + count / 9) {
        const double bound = binomial_upper_bound(wrong, count, risk);
        EXPECT_NEAR(naive_binomial(wrong, count, bound), risk, 1e-7) << wrong << " of " << count;
      }
    }
  }
  EXPECT_THROW(binomial_upper_bound(0, 0, 0.05), std::invalid_argument);
}

TEST(RiskBound, TheBoundOfAMeanIsTheLastNumberThatTheLossesDoNotRuleOut) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  for (const int count : {5, 40, 150}) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) losses.push_back(std::pow(uniform(random), 4.0));
    double mean = 0.0;
    for (const double loss : losses) mean += loss / count;
    const double bound = mean_upper_bound(losses, 0.05);
    EXPECT_GT(bound, mean);
    const auto chance = [&](double a) {
      const double h = mean * std::log(mean / a) + (1 - mean) * std::log((1 - mean) / (1 - a));
      return std::min(
          std::exp(-count * h),
          std::exp(1.0) * naive_binomial(static_cast<long>(std::ceil(count * mean)), count, a));
    };
    EXPECT_GE(chance(bound - 1e-6), 0.05);
    EXPECT_LE(chance(std::min(bound + 1e-6, 1.0 - 1e-9)), 0.05 + 1e-6);
  }
  // Right or wrong: the exact bound, which is sharper.
  EXPECT_EQ(mean_upper_bound(std::vector<double>{0, 1, 0, 0}, 0.05),
            binomial_upper_bound(1, 4, 0.05));
}

TEST(RiskBound, PromptsWithoutAnyLoss) {
  EXPECT_EQ(fewest_prompts(0.05, 0.05), 59);
  EXPECT_EQ(fewest_prompts(0.1, 0.05), 29);
  const std::vector<double> none(59, 0.0), fewer(58, 0.0);
  EXPECT_LE(mean_upper_bound(none, 0.05), 0.05);
  EXPECT_GT(mean_upper_bound(fewer, 0.05), 0.05);
  EXPECT_DOUBLE_EQ(conformal_mean(std::vector<double>{0.5, 0.25, 0.0}), 1.75 / 4.0);
}

/// A study of one measure in memory: losses(policy, budget, prompt) of budgets 10, 20, 40 %.
struct MadeStudy {
  template <typename Value>
  MadeStudy(std::string measure, int policies, int prompts, const Value& value) {
    const std::vector<std::string> budgets{"20%", "10%", "40%"};
    const std::vector<int> entries{20, 10, 40};
    table.measures = {std::move(measure)};
    table.values.resize(1);
    table.has_value.resize(1);
    const auto add = [&](const std::string& policy, const std::string& budget, int count,
                         int prompt, double number) {
      StudyResults::Item item;
      item.number = static_cast<int>(table.items.size());
      item.task = kAnswer;
      item.trace = "answer: set.jsonl#" + std::to_string(prompt);
      item.policy = policy;
      item.budget = budget;
      item.block_word = "128";
      item.entries = count;
      item.state = "done";
      table.items.push_back(item);
      table.values[0].push_back(number);
      table.has_value[0].push_back(std::isnan(number) ? 0 : 1);
    };
    for (int prompt = 0; prompt < prompts; ++prompt) {
      for (int policy = 0; policy < policies; ++policy) {
        for (std::size_t b = 0; b < budgets.size(); ++b) {
          add("p" + std::to_string(policy), budgets[b], entries[b], prompt,
              value(policy, entries[b], prompt));
        }
      }
      add("full", "full", 100, prompt, value(-1, 100, prompt));
    }
  }
  static constexpr const char* kAnswer = "answer";
  StudyTable table;
};

AdviceRequest answers_found(double at_most) {
  return AdviceRequest{.measure = "answer_found", .at_most = at_most};
}

TEST(Advice, TheSmallestBudgetFromWhichOnAllBoundsAreWithinTheLimit) {
  // p0 never loses at 20 and 40; p1 loses at 40 alone, so that nothing below may be promised.
  const MadeStudy made("answer_found", 2, 60, [](int policy, int entries, int prompt) {
    if (policy == 0) return entries == 10 && prompt % 2 == 0 ? 0.0 : 1.0;
    return entries == 40 && prompt % 3 == 0 ? 0.0 : 1.0;
  });
  const Advice advice = advise(made.table, answers_found(0.05));
  ASSERT_EQ(advice.policies.size(), 2U);
  EXPECT_EQ(advice.loss, "1 − answer_found");
  EXPECT_EQ(advice.needed, 59);
  const PolicyAdvice& first = advice.policies[0];
  ASSERT_EQ(first.budgets.size(), 3U);
  EXPECT_EQ(first.budgets[0].budget, "10%") << "by their entries";
  EXPECT_EQ(first.prompts, 60);
  EXPECT_DOUBLE_EQ(first.budgets[0].mean, 0.5);
  EXPECT_EQ(first.promised, 1);
  EXPECT_EQ(first.on_average, 1);
  EXPECT_THAT(first.rises, IsEmpty());
  const PolicyAdvice& second = advice.policies[1];
  EXPECT_EQ(second.promised, -1);
  EXPECT_EQ(second.on_average, -1);
  EXPECT_THAT(second.rises, ElementsAre(2));
  EXPECT_DOUBLE_EQ(second.budgets[0].conformal, 21.0 / 61.0) << "the worst at 10 % and above";
  const std::string text = advice_markdown(advice, answers_found(0.05));
  EXPECT_THAT(text, HasSubstr("| p0 | 20% | 20 | 0 | 0.0487 | 20% | 60 |"));
  EXPECT_THAT(text, HasSubstr("not reached with these prompts: at 40%"));
  EXPECT_THAT(text, HasSubstr("the mean loss rises from 20% to 40%"));
  EXPECT_THAT(advice_csv(advice), HasSubstr("\"p0\",\"20%\",20,60,0,0.0487"));
}

TEST(Advice, BesideTheFullCacheAndForAllPoliciesTogether) {
  // The full cache fails every second prompt; the policy fails the same and one more at 10.
  const MadeStudy made("answer_found", 1, 80, [](int policy, int entries, int prompt) {
    const bool own = policy == 0 && entries == 10 && prompt == 1;
    return prompt % 2 == 0 || own ? 0.0 : 1.0;
  });
  AdviceRequest request = answers_found(0.1);
  EXPECT_EQ(advise(made.table, request).policies[0].promised, -1);
  request.over_full = true;
  const Advice advice = advise(made.table, request);
  EXPECT_EQ(advice.policies[0].promised, 0);
  EXPECT_DOUBLE_EQ(advice.policies[0].budgets[0].mean, 1.0 / 80.0);

  const MadeStudy two("answer_found", 2, 60, [](int, int, int) { return 1.0; });
  EXPECT_EQ(advise(two.table, answers_found(0.05)).policies[0].promised, 0);
  request = answers_found(0.05);
  request.together = true;
  EXPECT_THAT([&] { require_enough_prompts(advise(two.table, request), request); },
              ::testing::ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("60 prompts"), HasSubstr("at least 72"))));
}

TEST(Advice, SaysWhichPromptsAreLeftOutAndHowWideAShareIs) {
  const MadeStudy made("answer_found", 2, 20, [](int policy, int entries, int prompt) {
    if (policy == 1 && entries == 10 && prompt < 6) return kUnknown;  // the run failed
    return entries == 10 && prompt == 7 ? 0.0 : 1.0;
  });
  const AdviceRequest request = answers_found(0.25);
  const Advice advice = advise(made.table, request);
  const std::string text = advice_markdown(advice, request);
  EXPECT_THAT(text, AllOf(HasSubstr("| 14 of 20 |"), HasSubstr("| 20 |")));
  EXPECT_THAT(text, HasSubstr("Up to 6 of 20 prompts are left out"));
  const BudgetRisk& at = advice.policies[1].budgets[0];
  const MeanInterval wilson = wilson_share(1, 14);
  EXPECT_DOUBLE_EQ(at.low, wilson.low);
  EXPECT_DOUBLE_EQ(at.high, wilson.high);
  EXPECT_GT(advice.policies[0].budgets[2].high, 0.1) << "none of 20";
}

TEST(Advice, LossesWithoutALimitNeedOne) {
  const MadeStudy made("perplexity_loss", 1, 100, [](int, int entries, int prompt) {
    return entries == 10 ? 3.0 : 0.01 * (prompt % 3);
  });
  AdviceRequest request{.measure = "perplexity_loss", .at_most = 0.3};
  EXPECT_THAT([&] { advise(made.table, request); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("--largest")));
  // Beside an infinite one every loss would be none.
  request.largest = std::numeric_limits<double>::infinity();
  EXPECT_THAT([&] { advise(made.table, request); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("--largest")));
  request.largest = 2.0;
  const Advice advice = advise(made.table, request);
  EXPECT_DOUBLE_EQ(advice.policies[0].budgets[0].mean, 2.0) << "3 counts as 2";
  EXPECT_NEAR(advice.policies[0].budgets[1].mean, 0.0099, 1e-12);
  EXPECT_EQ(advice.policies[0].promised, 1);
}

TEST(Advice, WhatCannotBeIsOneLine) {
  const MadeStudy ten("answer_found", 1, 10, [](int, int, int) { return 1.0; });
  const auto said = [&](const AdviceRequest& request) {
    return test::error_of<UsageError>(
        [&] { require_enough_prompts(advise(ten.table, request), request); }, "nothing");
  };
  EXPECT_THAT(said(answers_found(0.05)), AllOf(HasSubstr("10 prompts"), HasSubstr("at least 59")));
  EXPECT_THAT(said(answers_found(0.0)), HasSubstr("between 0 and 1"));
  EXPECT_THAT(said(answers_found(1.0)), HasSubstr("between 0 and 1"));
  AdviceRequest request = answers_found(0.5);
  request.measure = "retained_mass";
  EXPECT_THAT(said(request), HasSubstr("it has answer_found"));
  request = answers_found(0.5);
  request.block = "64";
  EXPECT_THAT(said(request), HasSubstr("it has 128"));
  request = answers_found(0.5);
  request.risk = 1.0;
  EXPECT_THAT(said(request), HasSubstr("such as 5%"));
}

/// The share of studies whose promised budget has a larger expected loss than was promised, and of
/// those that promise one.
struct Simulated {
  double broken = 0.0, promised = 0.0;
  double average = 0.0;  // expected loss of the budget by conformal risk control, 0 without one
};
template <typename Draw>
Simulated simulate(const std::vector<double>& expected, double at_most, int prompts,
                   const Draw& draw) {
  constexpr int kStudies = 800;
  std::mt19937 random(11);
  Simulated result;
  for (int study = 0; study < kStudies; ++study) {
    const MadeStudy made("answer_found", 1, prompts, [&](int policy, int entries, int) {
      const std::size_t at = entries == 10 ? 0 : entries == 20 ? 1 : 2;
      return policy < 0 ? 1.0 : 1.0 - draw(random, expected[at]);
    });
    const PolicyAdvice advice = advise(made.table, answers_found(at_most)).policies[0];
    if (advice.promised >= 0) {
      result.promised += 1.0 / kStudies;
      if (expected[advice.promised] > at_most) result.broken += 1.0 / kStudies;
    }
    if (advice.on_average >= 0) result.average += expected[advice.on_average] / kStudies;
  }
  return result;
}

TEST(Advice, PromisesAreKeptAsOftenAsTheySay) {
  const auto right_or_wrong = [](std::mt19937& random, double mean) {
    return std::bernoulli_distribution(mean)(random) ? 1.0 : 0.0;
  };
  const auto between = [](std::mt19937& random, double mean) {  // uniform, two thirds of the range
    return mean * (1.0 + (2.0 * std::generate_canonical<double, 53>(random) - 1.0) / 1.5);
  };
  // Just above the limit at the middle budget: the hardest case.
  for (const int prompts : {60, 200}) {
    const std::vector<double> expected{0.3, 0.101, 0.03};
    const Simulated coins = simulate(expected, 0.1, prompts, right_or_wrong);
    EXPECT_LE(coins.broken, 0.05 + 3.0 * std::sqrt(0.05 * 0.95 / 800.0));
    EXPECT_GT(coins.promised, prompts == 60 ? 0.3 : 0.95);
    EXPECT_LE(coins.average, 0.1 + 0.002);
    const Simulated shares = simulate(expected, 0.1, prompts, between);
    EXPECT_LE(shares.broken, 0.05 + 3.0 * std::sqrt(0.05 * 0.95 / 800.0));
    std::printf(
        "%d prompts: right or wrong: %.2f %% broken, %.1f %% promised, average %.4f; shares: "
        "%.2f %% broken, %.1f %% promised, average %.4f\n",
        prompts, 100 * coins.broken, 100 * coins.promised, coins.average, 100 * shares.broken,
        100 * shares.promised, shares.average);
  }
}

}  // namespace
}  // namespace kvloupe
