#pragma once
// Output perturbation with against without the second stage of CriticalKV: the common part of the
// figures per head, layer and budget.

#include <string>
#include <vector>

#include "app/figure/comparison.h"
#include "app/figure/figure.h"

namespace kvloupe::figure {

/// The choices all of them have: base, norm, query.
std::vector<ChoiceInfo> stage_choices();

/// The compared policies, the measure, and the query.
struct StageComparison {
  PolicySpec without;   // snapkv(pool=max), or with adakv
  PolicySpec with;      // and critical
  std::string measure;  // perturbation_l1 or _l2
  std::string symbol;   // "ℒ (L1)"
  int step = 0;
  std::string at;  // the query, in words
};
StageComparison stage_comparison(const FigureInput& input);

/// The replays of both policies, `without` first, that perturbations() reads.
std::vector<WantedReplay> wanted_of(const StageComparison& what);

/// ℒ of every query head, in order [L·Hq].
std::vector<double> perturbations(const StageComparison& what, const Replay& replay);

/// Mean of the finite ones; NaN for none.
double mean_of(const std::vector<double>& values);

/// Why there is no perturbation to compare, of a trace; else empty.
std::string no_perturbation(const Trace& trace);

}  // namespace kvloupe::figure
