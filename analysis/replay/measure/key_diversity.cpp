// key diversity: what KeyDiff minimises, whatever policy chose the keys.

#include "analysis/math/diversity.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily key_diversity() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Diversity of the keys";
  family.remark =
      "Computed from the captured keys of the kept tokens, even if entries were merged or "
      "refitted. The cache is the cache before the step's eviction.";
  family.scope = MeasureScope::step;
  family.measures = {
      {.name = "key_objective",
       .title = "Objective ‖Σ k̂‖²",
       .formula = "sum over all i, j in S of cos(k_i, k_j) = |sum over S of k_i/|k_i||^2, S the "
                  "retained keys",
       .source = "KeyDiff section 3.3",
       .better = Better::smaller,
       .summary = Summary::last,
       .help = "Sum of the cosines of all pairs of retained keys, which KeyDiff makes small.",
       .reads = StateParts::keys_only()},
      {.name = "key_mean_cosine",
       .title = "Mean cosine of retained keys",
       .formula = "mean over i != j in S of cos(k_i, k_j)",
       .source = "after KeyDiff section 3.3",
       .better = Better::smaller,
       .summary = Summary::last,
       .help = "How alike two different retained keys are: their mean cosine, lower where they are "
               "more diverse.",
       .reads = StateParts::keys_only()},
      {.name = "relaxation_gap",
       .title = "Gap of KeyDiff's relaxation",
       .formula = "|mean over S of k_i/|k_i| - mean over the cache of k_i/|k_i||",
       .source = "after KeyDiff section 3.3",
       .better = Better::smaller,
       .summary = Summary::last,
       .help = "Distance between the mean direction of the retained keys and that of the whole "
               "cache, which KeyDiff uses in its place.",
       .reads = StateParts::keys_only()},
  };
  family.of_step = [](MeasuredStep& step, std::span<double> values) {
    const Diversity d =
        kvloupe::key_diversity(step.prefix_keys(), step.present(), step.cache().tokens());
    values[0] = d.objective;
    values[1] = d.mean_cosine;
    values[2] = d.relaxation_gap;
  };
  return family;
}

}  // namespace kvloupe::measures
