// key attention: whether the keys unlike the others get the attention.

#include "analysis/math/rank_correlation.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily key_attention() {
  MeasureFamily family;
  family.group = MeasureGroup::full_cache;
  family.name = "Similarity and attention";
  family.remark =
      "Spearman's rank correlation over all tokens; ties get their mean rank. Attention is the "
      "mean over the queries that see a token and over the group; this needs all T^2/2 products.";
  family.scope = MeasureScope::trace;
  family.on_request = true;
  family.measures = {{.name = "key_attention_correlation",
                      .title = "ρ of similarity and attention",
                      .formula =
                          "rank correlation of the mean cosine of a key to the others and the "
                          "attention it receives",
                      .source = "after KeyDiff figure 2",
                      .help = "Whether keys that are like the others receive more attention: the "
                              "rank correlation of the two."}};
  family.of_trace = [](const MeasuredHead& head, std::span<double> values) {
    const auto group = static_cast<std::size_t>(head.context.model.group_size());
    const auto index = static_cast<std::size_t>(head.head);
    Progress part(head.progress, 0);
    values[0] = kvloupe::key_attention(
                    view(head.states.keys[index]),
                    std::span(head.states.queries).subspan(index * group, group),
                    head.context.attention.of_heads(head.head * head.context.model.group_size(),
                                                    head.context.model.group_size()),
                    head.context.model.reach(), part)
                    .correlation;
  };
  return family;
}

}  // namespace kvloupe::measures
