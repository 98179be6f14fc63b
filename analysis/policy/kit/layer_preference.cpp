#include "analysis/policy/kit/layer_preference.h"

#include <algorithm>
#include <utility>

#include "analysis/policy/kit/layer_shares.h"

namespace kvloupe {

LayerBudgetBuilder layer_preference(
    std::function<double(const SequenceTables&, const SpecPart&, int layer)> number,
    std::function<double(const SpecPart&, int budget)> base) {
  return {[number = std::move(number), base = std::move(base)](
              const SpecPart& part, const LayerContext& context, int seen) {
    if (seen <= context.budget) return context.budget;
    const auto tables = tables_of(part, context);
    const HeadTable& weights = tables->of_layers(
        PolicySpec{{part}}.text(), [&](int layer) { return number(*tables, part, layer); });
    const double least = std::min(base(part, context.budget), static_cast<double>(context.budget));
    return layer_share(weights, context.model.caches_before(context.layer), context.budget, least,
                       seen);
  }};
}

ParameterInfo vote_window(int queries) {
  return count_parameter("window", static_cast<double>(queries), 1, 1e6,
                         "queries at the end of the prompt whose attention is looked at");
}

}  // namespace kvloupe
