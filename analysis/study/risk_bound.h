#pragma once
// How large an expected loss can be that some prompts have shown: bounds that hold for any
// distribution of the losses, as long as the prompts were drawn like those to come.

#include <span>

namespace kvloupe {

/// The exact upper bound of a probability (Clopper and Pearson 1934): the largest p under which
/// `wrong` or fewer of `count` have a probability of at least `risk`; 1 where all are wrong. It is
/// too low with a probability of at most `risk`, 0 < risk < 1. Throws std::invalid_argument
/// without a count.
double binomial_upper_bound(long wrong, long count, double risk);

/// Hoeffding and Bentkus's upper bound of the mean of losses that lie between 0 and 1 (Bates et al.
/// 2021, Distribution-free, risk-controlling prediction sets, section 3.1.3): the largest a with
/// min(exp(−n h(min(m, a), a)), e P(Bin(n, a) ≤ ⌈n m⌉)) ≥ risk, m the mean of the n losses,
/// h(x, y) = x ln(x/y) + (1 − x) ln((1 − x)/(1 − y)). If all losses are 0 or 1, the result is
/// binomial_upper_bound(), which is sharper. Throws std::invalid_argument without losses.
double mean_upper_bound(std::span<const double> losses, double risk);

/// (Σ losses + 1) / (n + 1), losses between 0 and 1: a setting whose number is at most a has, on
/// average over the prompts that it was chosen with, an expected loss of at most a (Angelopoulos et
/// al. 2022, Conformal risk control, theorem 1), if no prompt's loss grows with the setting.
double conformal_mean(std::span<const double> losses);

/// So many prompts without any loss are needed before a bound is at most `at_most`:
/// ⌈ln risk / ln(1 − at_most)⌉. Both between 0 and 1.
long fewest_prompts(double at_most, double risk);

}  // namespace kvloupe
