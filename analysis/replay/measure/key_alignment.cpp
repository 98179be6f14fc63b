// key alignment: KeyDiff's theorems C.1 and C.3 for the key that a query attends to most.

#include <limits>

#include "analysis/math/bounds.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily key_alignment() {
  MeasureFamily family;
  family.group = MeasureGroup::scores;
  family.name = "Alignment of key and query";
  family.remark =
      "k* is the key that the step's last query attends to most, over the whole captured prefix, "
      "whatever the policy. Keys are scaled so that the query has length one. The bound of theorem "
      "C.1 is shown as printed: it is never positive, and it can fail if the cosine is negative. "
      "The weight and the bounds of C.1 are NaN for logits with a soft cap or a sink. "
      "The bound of theorem C.3 is useful only if cos(mean k, q) < 0 < cos(k*, q).";
  family.scope = MeasureScope::query_head;
  family.on_request = true;
  family.measures = {
      {.name = "strongest_weight",
       .title = "Attention of the strongest key",
       .formula = "w = A of k*",
       .source = "KeyDiff theorem C.1",
       .share = true,
       .help = "Attention on the key that receives the most."},
      {.name = "strongest_cosine",
       .title = "Cosine of strongest key and query",
       .formula = "cos(k*, q)",
       .source = "KeyDiff theorem C.1",
       .help = "Cosine of the query and the key that receives the most attention."},
      {.name = "theorem_c1_bound",
       .title = "Theorem C.1, lower bound",
       .formula = "(log(n/(n+1)) - log(1-w))/(2M) - 1, M = max(1, max |k_i|^2)",
       .source = "KeyDiff theorem C.1",
       .help = "KeyDiff's lower bound of the cosine of the query and the key that receives the "
               "most attention."},
      {.name = "jensen_bound",
       .title = "Jensen's lower bound",
       .formula = "(log(w/(1-w)) + log n + mean of the other k_i q)/|k*|",
       .source = "ours",
       .help = "A lower bound of the same cosine, by Jensen's inequality."},
      {.name = "mean_key_cosine",
       .title = "Cosine of mean key and strongest key",
       .formula = "cos(mean k, k*)",
       .source = "KeyDiff theorem C.3",
       .help = "Cosine of the mean key and the key that receives the most attention."},
      {.name = "theorem_c3_bound",
       .title = "Theorem C.3, upper bound",
       .formula = "1 + a b - a^2/2 - b^2/2, a = cos(mean k, q), b = cos(k*, q)",
       .source = "KeyDiff theorem C.3",
       .help = "KeyDiff's upper bound of the cosine of the mean key and the key that receives the "
               "most attention."},
      {.name = "spherical_bound",
       .title = "Spherical upper bound",
       .formula = "cos(arccos a - arccos b)",
       .source = "ours",
       .help = "An upper bound of the same cosine from the angles of both keys to the query."},
  };
  family.of_query_head = [](MeasuredStep& step, int query_head, std::span<double> values) {
    const std::span<const float> query = step.last_query(query_head);
    const MatrixView keys = step.seen_keys();
    const Eigen::Index star = strongest_key(query, keys);
    const LogitRule rule = step.rule(query_head);
    const AttentionAlignment to_query = attention_alignment(query, keys, rule.scale, star);
    const MeanKeyAlignment to_mean = mean_key_alignment(query, keys, star);
    values[0] = to_query.weight;
    values[1] = to_query.cosine;
    values[2] = to_query.paper_bound;
    values[3] = to_query.jensen_bound;
    values[4] = to_mean.measured;
    values[5] = to_mean.paper_bound;
    values[6] = to_mean.tight_bound;
    // The theorem is about a softmax of scaled products over the keys alone.
    if (!rule.plain()) values[0] = values[2] = values[3] = std::numeric_limits<double>::quiet_NaN();
  };
  return family;
}

}  // namespace kvloupe::measures
