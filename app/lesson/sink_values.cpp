#include "app/lesson/value_groups.h"

#include "analysis/math/sink.h"

namespace kvloupe::lesson {

namespace {

/// The catalogue's function from one of the trace's sinks.
template <typename Function>
constexpr auto of_sinks(Function) {
  return computed([](In s, Arguments, Progress& p) {
    return static_cast<double>(Function{}(*s.store->sinks(*s.trace, p), *s.trace));
  });
}

}  // namespace

ValueGroup sink_values() {
  ValueGroup group{"Attention sinks, of token 0", {}};
  const auto add = [&](ValueInfo info) { group.values.push_back(std::move(info)); };
  add({.name = "sinks.share",
       .meaning = "share of the query heads that give token 0 more than 0.3, on average over all "
                  "later queries",
       .compute = of_sinks([](const ValueStore::Sinks& sinks, const Trace&) {
         return static_cast<double>(sinks.heads) /
                static_cast<double>((!sinks.strengths.array().isNaN()).count());
       })});
  add({.name = "sinks.count",
       .meaning = "number of these query heads",
       .compute =
           of_sinks([](const ValueStore::Sinks& sinks, const Trace&) { return sinks.heads; })});
  add({.name = "sinks.strength",
       .meaning = "largest mean attention, of at most 0.95, that a query head gives token 0 (where "
                  "every head gives more, the largest)",
       .compute = of_sinks([](const ValueStore::Sinks& sinks, const Trace&) {
         return sinks.strengths(sinks.layer, sinks.query_head);
       })});
  add({.name = "sinks.here",
       .meaning = "mean attention that the selected head gives token 0 (mean over its query heads)",
       .compute = computed([](In s, Arguments, Progress& p) {
         const auto sinks = s.store->sinks(*s.trace, p);
         const figure::Selection& at = s.workspace.selection;
         const int group = s.trace->layer_model(at.layer).group_size();
         return sinks->strengths.row(at.layer).segment(at.head * group, group).mean();
       })});
  add({.name = "sinks.layer",
       .meaning = "the layer of the query head with `sinks.strength`",
       .compute =
           of_sinks([](const ValueStore::Sinks& sinks, const Trace&) { return sinks.layer; })});
  add({.name = "sinks.head",
       .meaning = "its key-value head",
       .compute = of_sinks([](const ValueStore::Sinks& sinks, const Trace& trace) {
         return static_cast<double>(trace.layer_model(sinks.layer).head_of(sinks.query_head));
       })});
  add({.name = "sinks.query_head",
       .meaning = "its index among the query heads",
       .compute = of_sinks(
           [](const ValueStore::Sinks& sinks, const Trace&) { return sinks.query_head; })});
  add({.name = "sinks.value_ratio",
       .meaning = "norm of token 0's value divided by the median norm of all values, in that head",
       .compute = of_sinks([](const ValueStore::Sinks& sinks, const Trace& trace) {
         return static_cast<double>(sinks.value_ratios(
             sinks.layer, trace.layer_model(sinks.layer).head_of(sinks.query_head)));
       })});
  add({.name = "sinks.median_value_ratio",
       .meaning = "median of this ratio over the query heads that give token 0 more than 0.3",
       .needs = "a query head above 0.3",
       .compute = of_sinks([](const ValueStore::Sinks& sinks, const Trace& trace) {
         std::vector<double> ratios;
         for (int l = 0; l < trace.model().num_layers; ++l) {
           const ModelInfo& model = trace.layer_model(l);
           for (int h = 0; h < model.num_heads; ++h) {
             if (sinks.strengths(l, h) > kSinkHead)
               ratios.push_back(static_cast<double>(sinks.value_ratios(l, model.head_of(h))));
           }
         }
         return median(std::move(ratios));
       })});
  add({.name = "rest",
       .arguments = {{Argument::number, "layer"}, {Argument::number, "query_head"}},
       .meaning = "mean attention that this query head gives token 0",
       .compute = computed([](In s, Arguments a, Progress& p) {
         const auto sinks = s.store->sinks(*s.trace, p);
         const int l = index(a[0], static_cast<int>(sinks->strengths.rows()));
         const int h = index(a[1], static_cast<int>(sinks->strengths.cols()));
         return l < 0 || h < 0 ? kNone : static_cast<double>(sinks->strengths(l, h));
       })});
  return group;
}

}  // namespace kvloupe::lesson
