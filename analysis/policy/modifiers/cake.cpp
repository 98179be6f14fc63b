// cake: layers whose attention is spread widely and changes with the query hold more.

#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/layer_preference.h"
#include "analysis/policy/kit/probe_attention.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
/// Spread and change of a layer's attention to the tokens before the window, over all query heads.
struct Preference {
  double entropy = 0.0;   // Σ −A ln A over heads, queries and tokens
  double variance = 0.0;  // Σ over heads and tokens of the variance over the queries, by W − 1
};

Preference preference_of(const SequenceTables& tables, int layer, int window) {
  Preference sum;
  const int heads = tables.trace().layer_model(layer).num_heads;
  for (int query_head = 0; query_head < heads; ++query_head) {
    tables.check();
    const Eigen::MatrixXd rows =
        window_attention(tables.trace(), layer, query_head, window, tables.end());
    const Eigen::Index before = rows.cols() - rows.rows();
    const auto prefix = rows.leftCols(before).array();
    sum.entropy -= (prefix > 0.0).select(prefix * prefix.max(1e-300).log(), 0.0).sum();
    if (rows.rows() < 2) continue;
    const Eigen::ArrayXd mean = prefix.colwise().mean().transpose();
    for (Eigen::Index column = 0; column < before; ++column) {
      sum.variance +=
          (prefix.col(column) - mean[column]).square().sum() / static_cast<double>(rows.rows() - 1);
    }
  }
  return sum;
}
}  // namespace

void cake(PolicyEntry& entry) {
  entry.summary = "layers with widely spread, changing attention hold more; N is the mean";
  entry.traits.reads_sequence = true;
  entry.formula =
      "layer l holds window + (N - window) L P_l / sum P per head; P = H^(1/tau1) V^(1/tau2); "
      "H: entropy, V: variance over the queries of the last window queries' attention to the "
      "tokens before them, summed over query heads; at most the tokens seen, what a layer cannot "
      "use is shared evenly by the others, then rounded by largest remainder";
  entry.source = "CAKE (Qin et al., 2025, arXiv 2503.12491)";
  entry.needs = "once before the first step the last queries and the keys of all layers";
  entry.work = "once T window products of length d per query head";
  entry.differences =
      "its authors' code takes tau1 and tau2 from a table by model, 0.4 to 1.9, and has its own "
      "score: cakescore. The weights, from the end of the prompt, hold at every step";
  entry.parameters = {
      vote_window(32),
      number_parameter("tau1", 1.0, 0.01, 100.0, "temperature of the spread: larger counts less"),
      number_parameter("tau2", 1.0, 0.01, 100.0, "temperature of the change: larger counts less"),
      statistics_parameter()};
  entry.example = "snapkv+cake";
  entry.builder = layer_preference(
      [](const SequenceTables& tables, const SpecPart& part, int layer) {
        const Preference found = preference_of(tables, layer, part.count("window"));
        return std::pow(found.entropy, 1.0 / part.number("tau1")) *
               std::pow(found.variance, 1.0 / part.number("tau2"));
      },
      [](const SpecPart& part, int) { return static_cast<double>(part.count("window")); });
}

}  // namespace kvloupe::policies
