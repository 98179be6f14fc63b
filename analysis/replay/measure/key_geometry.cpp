// key geometry: how keys and queries lie to each other, without any policy.

#include <algorithm>
#include <cmath>

#include "analysis/math/angle.h"
#include "analysis/math/merging.h"
#include "analysis/math/norms.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
constexpr double kDistinctShare = 0.1;
/// Tokens between the keys of far_key_cosine: well beyond a sentence.
constexpr int kFar = 64;

double median_of(const std::vector<double>& values) {
  return static_cast<double>(median(std::vector<float>(values.begin(), values.end())));
}
}  // namespace

MeasureFamily key_geometry() {
  MeasureFamily family;
  family.group = MeasureGroup::full_cache;
  family.name = "Key geometry";
  family.remark =
      "Computed from all captured keys, queries and values of a head, after RoPE; the mean if "
      "several query heads read the head. The paper does not say how many keys its figure 14 uses; "
      "here it is a tenth.";
  family.scope = MeasureScope::trace;
  family.measures = {
      {.name = "mean_key_query_cosine",
       .title = "Cosine of mean key and mean query",
       .formula = "cos(mean k_i, mean q_i)",
       .source = "KeyDiff figure 12",
       .help = "Cosine of the head's mean key and mean query: if it is negative, keys that differ "
               "from the mean receive more attention."},
      {.name = "distinct_keys_query_cosine",
       .title = "Cosine of distinct keys and mean query",
       .formula =
           "mean of cos(k_i, mean q) over the tenth of the keys with the highest KeyDiff score",
       .source = "KeyDiff figure 14",
       .help =
           "Mean cosine of the mean query and the tenth of the keys that KeyDiff scores highest."},
      {.name = "key_angle",
       .title = "Median angle to the mean key",
       .unit = "degrees",
       .formula = "median of arccos cos(k_i, mean k)",
       .source = "after KeyDiff figure 11",
       .help = "Median angle between a key and the head's mean key."},
      {.name = "key_norm",
       .title = "Median length of a key",
       .formula = "median of |k_i|",
       .source = "after KeyDiff figure 13",
       .help = "Median length of the head's keys."},
      {.name = "neighbour_key_cosine",
       .title = "Cosine of neighbours' keys",
       .formula = "mean of cos(k_i, k_i-1)",
       .source = "after KVMerger figure 3a",
       .help = "How alike the keys of neighbouring tokens are: their mean cosine."},
      {.name = "neighbour_value_cosine",
       .title = "Cosine of neighbours' values",
       .formula = "mean of cos(v_i, v_i-1)",
       .source = "after KVMerger figure 3a",
       .help = "How alike the values of neighbouring tokens are: their mean cosine."},
      {.name = "far_key_cosine",
       .title = "Cosine of keys 64 tokens apart",
       .formula = "mean of cos(k_i, k_i-64)",
       .source = "after KVMerger figure 3a",
       .help = "How alike two keys are with 63 tokens between them: their mean cosine, lower than "
               "the neighbours' where keys are alike locally. Unknown in 64 tokens or fewer."},
      {.name = "far_value_cosine",
       .title = "Cosine of values 64 tokens apart",
       .formula = "mean of cos(v_i, v_i-64)",
       .source = "after KVMerger figure 3a",
       .help = "How alike two values are with 63 tokens between them: their mean cosine. Unknown "
               "in 64 tokens or fewer."},
  };
  family.of_trace = [](const MeasuredHead& head, std::span<double> values) {
    const auto index = static_cast<std::size_t>(head.head);
    const MatrixView keys = view(head.states.keys[index]);
    const Eigen::RowVectorXd mean_key = mean_row(keys);
    const int group = head.context.model.group_size();
    const int count = std::max(
        1, static_cast<int>(std::lround(kDistinctShare * static_cast<double>(keys.rows()))));
    values[0] = values[1] = 0.0;
    for (int q = head.head * group; q < (head.head + 1) * group; ++q) {
      const Eigen::RowVectorXd mean_query =
          mean_row(view(head.states.queries[static_cast<std::size_t>(q)]));
      values[0] += cosine(mean_key, mean_query) / group;
      values[1] += distinct_rows_cosine(keys, mean_query, count) / group;
    }
    values[2] = median_of(angles_to(keys, mean_key));
    values[3] = static_cast<double>(median(row_norms(keys)));
    const MatrixView own_values = view(head.states.values[index]);
    values[4] = mean_similarity_at(keys, 1);
    values[5] = mean_similarity_at(own_values, 1);
    values[6] = mean_similarity_at(keys, kFar);
    values[7] = mean_similarity_at(own_values, kFar);
  };
  return family;
}

}  // namespace kvloupe::measures
