#include "analysis/policy/kit/accumulated_attention.h"

#include "analysis/policy/kit/group_mean.h"
#include "analysis/policy/kit/kept_rows.h"

namespace kvloupe {

AccumulatedAttention::AccumulatedAttention(const ModelInfo& model)
    : model_(model), sums_(static_cast<std::size_t>(model.num_kv_heads)) {}

void AccumulatedAttention::observe(const StepView& view, int head) {
  std::vector<double>& sums = sums_[static_cast<std::size_t>(head)];
  sums.resize(view.caches[static_cast<std::size_t>(head)].tokens.size(), 0.0);
  const std::vector<double> step =
      group_mean(model_, head, sums.size(), [&](int query_head) -> const std::vector<float>& {
        return view.attention->column_sums(query_head);
      });
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += step[i];
}

void AccumulatedAttention::retain(int head, const HeadDecision& decision) {
  std::vector<double>& sums = sums_[static_cast<std::size_t>(head)];
  for (const Merge& merge : decision.merges) {
    if (merge.key.empty()) continue;  // a value that was given away took no key along
    double together = 0.0;
    for (const int member : merge.from) together += sums[static_cast<std::size_t>(member)];
    sums[static_cast<std::size_t>(merge.into)] = together;
  }
  keep_rows(sums, decision.kept);
}

}  // namespace kvloupe
