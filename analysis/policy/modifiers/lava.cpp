// lava: layers whose scores are spread over many entries hold more.

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/policy/kit/layer_preference.h"
#include "analysis/policy/kit/probe_attention.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
/// The scores of the tokens before the window, of all key-value heads one after another: smoothed
/// window attention times the largest ‖v‖₁ among them, the largest of the group.
std::vector<double> scores_of(const SequenceTables& tables, int layer, int window, int kernel) {
  const ModelInfo& model = tables.trace().layer_model(layer);
  std::vector<double> all;
  for (int head = 0; head < model.num_kv_heads; ++head) {
    const Matrix values = tables.trace().value(layer, head);
    std::vector<double> best;
    for (int i = 0; i < model.group_size(); ++i) {
      tables.check();
      const Eigen::MatrixXd rows = window_attention(
          tables.trace(), layer, head * model.group_size() + i, window, tables.end());
      const Eigen::Index before = rows.cols() - rows.rows();
      if (before == 0) return {};
      const Eigen::VectorXd mean = rows.leftCols(before).colwise().mean().transpose();
      const double most = values.topRows(before).cast<double>().rowwise().lpNorm<1>().maxCoeff();
      const std::vector<double> pooled = smoothed({mean.data(), mean.data() + mean.size()}, kernel,
                                                  Pool::maximum, static_cast<int>(before));
      best.resize(pooled.size(), 0.0);
      for (std::size_t t = 0; t < pooled.size(); ++t) best[t] = std::max(best[t], pooled[t] * most);
    }
    all.insert(all.end(), best.begin(), best.end());
  }
  return all;
}

double entropy_of(const std::vector<double>& scores) {
  double sum = 0.0;
  for (const double score : scores) sum += score;
  double entropy = 0.0;
  for (const double score : scores) {
    if (score > 0.0) entropy -= score / sum * std::log(score / sum);
  }
  return entropy;
}
}  // namespace

void lava(PolicyEntry& entry) {
  entry.summary = "layers whose scores are spread over many entries hold more; N is the mean";
  entry.traits.reads_sequence = true;
  entry.formula =
      "layer l holds window + (N - window) L e_l / sum e per head; e: entropy of the scores of all "
      "its heads together, made to sum to 1; score: mean attention of the last window queries, "
      "smoothed by maximum, times the head's largest |v|_1, the largest of the group; limits and "
      "rounding as in cake";
  entry.source = "LAVa (Shen et al., 2025, arXiv 2509.09754)";
  entry.needs = "once before the first step the last queries, keys and values of all layers";
  entry.work = "once T window products of length d per query head";
  entry.differences =
      "its authors' code shares a layer's entries among its heads by the same scores: add adakv. "
      "The weights, from the end of the prompt, hold at every step";
  entry.parameters = {vote_window(32), kernel_parameter(7.0, "width of the smoothing in entries"),
                      statistics_parameter()};
  entry.example = "snapkv(pool=max)+adakv+lava";
  entry.builder = layer_preference(
      [](const SequenceTables& tables, const SpecPart& part, int layer) {
        return entropy_of(scores_of(tables, layer, part.count("window"), part.count("kernel")));
      },
      [](const SpecPart& part, int) { return static_cast<double>(part.count("window")); });
}

}  // namespace kvloupe::policies
