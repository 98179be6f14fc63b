#pragma once
// How many entries each head gets so that all heads together lose least: the mathematics of
// `kvloupe advise --heads`, without files and studies.

#include <span>
#include <vector>

namespace kvloupe {

/// A loss by number of entries, at some numbers of entries, linear between them.
struct LossCurve {
  std::vector<double> entries;  // ascending, at least one
  std::vector<double> losses;   // as many

  /// Below the first number of entries and above the last: the loss there.
  double at(double number) const;
};

/// The largest convex curve that never rises and is nowhere above this one, at the same numbers of
/// entries: the lower hull of the points (Andrew 1979), level from its lowest point on.
LossCurve convex_curve(const LossCurve& curve);

/// Shares `steps` equal steps among the heads: losses[head][k] is the head's loss with k steps,
/// convex in k, and a head takes at most losses[head].size() - 1. One step after the other goes to
/// the head whose loss it lowers most; of equals to the head with the fewest steps, then to the
/// first. For convex losses that never rise, this division has the smallest sum (Fox 1966, Discrete
/// optimization via marginal analysis). Fewer steps are given where the heads take no more.
std::vector<int> share_steps(std::span<const std::vector<double>> losses, long steps);

/// The same from curves: each head gets `least` entries and may hold up to the curves' last number;
/// the rest, so that the mean over the heads is `mean`, in steps of at most `step` entries. The
/// result is the entries of each head, with the sum mean × heads exactly but for rounding. Needs
/// least < mean <= the last number.
std::vector<double> share_entries(std::span<const LossCurve> curves, double mean, double least,
                                  double step);

}  // namespace kvloupe
