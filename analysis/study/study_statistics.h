#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

/// A mean and where it may lie.
struct MeanInterval {
  double mean = 0.0;
  double low = 0.0, high = 0.0;  // 95 %
};

inline constexpr int kResamples = 10'000;
inline constexpr std::uint64_t kBootstrapSeed = 1;

/// The mean of some values, at least one, with the percentile bootstrap's interval (Efron 1979): of
/// kResamples means of as many values, drawn with replacement, those at ranks ⌊0.025 R⌋ and
/// R − 1 − ⌊0.025 R⌋, from 0. What is drawn follows from the seed and the number of values alone,
/// so that the intervals of paired values draw the same pairs, and an interval of differences is
/// that of the paired bootstrap. Throws std::invalid_argument without a value.
MeanInterval bootstrap_mean(std::span<const double> values, std::uint64_t seed = kBootstrapSeed);

/// Wilson's interval of a share (Wilson 1927): hits of count, at least one; 95 %. Unlike the
/// bootstrap's, it has a width where all values are equal. Throws std::invalid_argument without a
/// value.
MeanInterval wilson_share(long hits, long count);

/// The interval of a mean over prompts: wilson_share() for shares that are all 0 or 1, else
/// bootstrap_mean(); unknown (NaN) for one value of another kind. `share`: of a measure that lies
/// between 0 and 1, such as StudyMeasure::share. `contexts`: one number for each value, or none;
/// values with the same one are of questions about one context and not independent. Then the mean
/// is over all values, and the bootstrap draws contexts with all that belongs to them (cluster
/// bootstrap), also for shares; unknown for one context. Throws std::invalid_argument without a
/// value.
MeanInterval mean_interval(std::span<const double> values, bool share = true,
                           std::span<const int> contexts = {});

/// The mean of value − other over prompts that have both, with its interval: for shares that are
/// all 0 or 1, Newcombe's from the two Wilson intervals and the correlation of the pairs (Newcombe
/// 1998, Statistics in Medicine 17, page 2635, method 10), which has a width where all pairs are
/// equal; else, and for pairs that share contexts, mean_interval() of the differences. Throws
/// std::invalid_argument without a pair.
MeanInterval paired_interval(std::span<const double> values, std::span<const double> others,
                             bool share = true, std::span<const int> contexts = {});

/// The mean of each context's values; of no contexts, the values.
std::vector<double> context_means(std::span<const double> values, std::span<const int> contexts);

/// With fewer prompts, the bootstrap's interval is too narrow: figures show no band, tables say so.
inline constexpr int kFewestForBootstrap = 10;

/// The mean of independent means, and its interval from theirs: mean ∓ √(Σ ((mean_i − end_i) / k)²)
/// over the lower and the upper ends (MOVER; Zou and Donner 2008, Statistics in Medicine 27,
/// equations 2 and 3, for the weights 1/k). Throws std::invalid_argument without a mean.
MeanInterval mean_of_means(std::span<const MeanInterval> means);

/// Mean of the known (finite) values with Student's 95 % interval: mean ∓ t(0.975, n − 1) · s / √n
/// (Student 1908). In place of bootstrap_mean() where hundreds of means are drawn at once. One
/// value: the interval is unknown (NaN); none: so is the mean.
struct StudentMean : MeanInterval {
  int count = 0;  // known values
};
StudentMean student_mean(std::span<const double> values);

/// The t beyond which, on both sides together, lie 5 % of Student's distribution with `degrees` ≥ 1
/// of freedom.
double student_t95(int degrees);

// How large an expected loss can be that some prompts have shown: bounds that hold for any
// distribution of the losses, as long as the prompts were drawn like those to come.

/// The exact upper bound of a probability (Clopper and Pearson 1934): the largest p under which
/// `wrong` or fewer of `count` have a probability of at least `risk`; 1 where all are wrong. It is
/// too low with a probability of at most `risk`, 0 < risk < 1. Throws std::invalid_argument
/// without a count.
double binomial_upper_bound(long wrong, long count, double risk);

/// Hoeffding and Bentkus's upper bound of the mean of losses that lie between 0 and 1 (Bates et al.
/// 2021, Distribution-free, risk-controlling prediction sets, section 3.1.3): the largest a with
/// min(exp(−n h(min(m, a), a)), e P(Bin(n, a) ≤ ⌈n m⌉)) ≥ risk, m the mean of the n losses,
/// h(x, y) = x ln(x/y) + (1 − x) ln((1 − x)/(1 − y)). Where all losses are 0 or 1,
/// binomial_upper_bound(), which is sharper. Throws std::invalid_argument without losses.
double mean_upper_bound(std::span<const double> losses, double risk);

/// (Σ losses + 1) / (n + 1), losses between 0 and 1: a setting whose number is at most a has, on
/// average over the prompts that it was chosen with, an expected loss of at most a (Angelopoulos et
/// al. 2022, Conformal risk control, theorem 1), if no prompt's loss grows with the setting.
double conformal_mean(std::span<const double> losses);

/// So many prompts without any loss are needed before a bound is at most `at_most`:
/// ⌈ln risk / ln(1 − at_most)⌉. Both between 0 and 1.
long fewest_prompts(double at_most, double risk);

/// Policies ranked on each prompt (Friedman 1937; Demšar 2006, Statistical Comparisons of
/// Classifiers over Multiple Data Sets, section 3.2).
struct PolicyRanks {
  int prompts = 0;                 // N
  std::vector<double> mean_ranks;  // [k] 1 is best; equal values share the mean of their ranks
  /// Friedman's χ²_F with the correction for ties: (k−1) Σ_j (R_j − N(k+1)/2)² divided by Σ r² −
  /// N k (k+1)²/4, R_j the sum of a policy's ranks (Conover 1999, section 5.8). 0 where every
  /// prompt gives all policies the same value.
  double chi_squared = 0.0;
  /// Iman and Davenport's F_F = (N−1) χ²_F / (N(k−1) − χ²_F), with k−1 and (k−1)(N−1) degrees of
  /// freedom; infinite where all prompts agree.
  double f = 0.0;
  double p = 1.0;  // of F_F: that policies which do not differ are ranked so differently
  /// Nemenyi's critical difference of two mean ranks, q_α √(k(k+1)/(6N)), q_α the quantile of the
  /// studentized range with infinitely many degrees of freedom, divided by √2; computed, not read
  /// from a table.
  double critical_difference = 0.0;
};

inline constexpr double kRankAlpha = 0.05;

/// values [prompts, policies], row by row, all finite; at least two of each. Throws
/// std::invalid_argument otherwise.
PolicyRanks rank_policies(std::span<const double> values, int policies, bool larger_is_better,
                          double alpha = kRankAlpha);

}  // namespace kvloupe
