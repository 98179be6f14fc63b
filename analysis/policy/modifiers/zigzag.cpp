// zigzag: layers that need many entries for most of their attention hold more.

#include <algorithm>
#include <functional>
#include <vector>

#include "analysis/policy/kit/layer_preference.h"
#include "analysis/policy/kit/probe_attention.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
/// The fewest tokens that together get this share of the window's mean attention.
double tokens_needed(const SequenceTables& tables, int layer, int query_head, int window,
                     double share) {
  const Eigen::MatrixXd rows =
      window_attention(tables.trace(), layer, query_head, window, tables.end());
  const Eigen::VectorXd mean = rows.colwise().mean().transpose();
  std::vector<double> received(mean.data(), mean.data() + mean.size());
  std::sort(received.begin(), received.end(), std::greater<>());
  const double wanted = share * mean.sum();
  double sum = 0.0;
  for (std::size_t i = 0; i < received.size(); ++i) {
    sum += received[i];
    if (sum >= wanted) return static_cast<double>(i + 1);
  }
  return static_cast<double>(received.size());
}
}  // namespace

void zigzag(PolicyEntry& entry) {
  entry.summary =
      "layers that need many entries for most of their attention hold more; N is the mean";
  entry.traits.reads_sequence = true;
  entry.formula =
      "layer l holds floor N + (1 - floor) N L M_l / sum M per head; M: mean over its query heads "
      "of the fewest tokens that get `mass` of the last window queries' mean attention; limits and "
      "rounding as in cake";
  entry.source = "ZigZagKV (Zhong et al., 2024, arXiv 2412.09036); as a proposal for kvpress";
  entry.needs = "once before the first step the last queries and the keys of all layers";
  entry.work = "once T window products of length d per query head, and T log T comparisons";
  entry.differences = "the weights, from the end of the prompt, hold at every step";
  entry.parameters = {
      vote_window(32),
      number_parameter("mass", 0.9, 0.0, 1.0, "share of the attention that a layer should keep"),
      number_parameter("floor", 0.2, 0.0, 1.0,
                       "share of the budget that every layer gets in any case; 1: uniform"),
      statistics_parameter()};
  entry.example = "snapkv+zigzag";
  entry.builder = layer_preference(
      [](const SequenceTables& tables, const SpecPart& part, int layer) {
        const int heads = tables.trace().layer_model(layer).num_heads;
        double sum = 0.0;
        for (int query_head = 0; query_head < heads; ++query_head) {
          tables.check();
          sum +=
              tokens_needed(tables, layer, query_head, part.count("window"), part.number("mass"));
        }
        return sum / heads;
      },
      [](const SpecPart& part, int budget) { return part.number("floor") * budget; });
}

}  // namespace kvloupe::policies
