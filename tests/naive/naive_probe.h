#pragma once

#include <vector>

#include "analysis/policy/kit/probe_tables.h"

namespace kvloupe::naive {

/// Scores of one layer by plain loops in double, [Hk] of [E].
using HeadScores = std::vector<std::vector<double>>;

/// KVzip: the first `sinks` tokens are 1 where `keep`; KVzip+ where `plus`, with
/// infinity for these.
HeadScores kvzip(const ProbeInfo& probe, const LayerProbe& states, int sinks, bool keep, bool plus);
/// KVCompose: times ‖v‖ where `values`, the mean over the heads added where `mean`.
HeadScores kvcompose(const ProbeInfo& probe, const LayerProbe& states, bool values, bool mean);

/// Scores extended to `tokens`: tokens that the scores do not cover get the largest score of all
/// layers, at least 1. Infinite scores become the largest of the others + 1.
std::vector<HeadScores> extended(std::vector<HeadScores> layers, int tokens);

/// How many of the tokens before `end` each head of each layer holds, [L][Hk], if all share
/// `each` of them on average; windows [L], 0: none. `composite`: layers share, by the mean of their
/// heads' sorted scores.
std::vector<std::vector<int>> places(const std::vector<HeadScores>& layers,
                                     const std::vector<int>& windows, int end, int each,
                                     bool composite);

}  // namespace kvloupe::naive
