// pyramid: early layers hold more, late layers less.

#include <algorithm>
#include <cmath>

#include "analysis/policy/kit/layer_preference.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe {

int pyramid_budget(int layer, int layers, int budget, double beta, int seen, int window) {
  if (seen <= budget || layers < 2) return budget;
  // max = 2N − N/β and min = N/β, or max = n − w and min = 2N − max: N and the same distance both
  // ways.
  const double mean = budget;
  const double reach = std::min(mean - mean / beta, static_cast<double>(seen - window) - mean);
  // Nothing to fall from, or the last layer would hold less than its window.
  if (reach < 0.0 || mean - reach < window) return budget;
  const double offset = reach * (layers - 1 - 2 * layer) / (layers - 1);
  // Half to even; a number within rounding of a half counts as a half, so that a decimal β is
  // exact.
  const double halves = std::round(2.0 * offset);
  const double exact = std::abs(2.0 * offset - halves) < 1e-6 ? halves / 2.0 : offset;
  return std::max(1, static_cast<int>(std::nearbyint(mean + exact)));
}

namespace policies {

void pyramid(PolicyEntry& entry) {
  entry.summary = "the budget falls from the first layer to the last; N is the mean";
  entry.formula =
      "layer l of L holds max - l(max - min)/(L - 1) per head, rounded half to even; min = N/beta, "
      "max = 2N - min; if max > n - w: max = n - w, min = 2N - max; uniform if min < w; n = tokens "
      "seen that later queries see, w = window";
  entry.source = "Cai et al., PyramidKV; as kvpress";
  entry.needs = "the number of layers";
  entry.work = "none";
  entry.differences =
      "KVCache-Factory adds the window to each layer's share, uses integer division and stays "
      "uniform below twice the budget; kvpress has the window of its score: window=64; under block "
      "prefill n, the tokens seen, is equal in all layers, so their sum stays exact. A share, as "
      "of recent(10%), is one of N in every layer, cut where the layer holds less";
  entry.parameters = {
      number_parameter("beta", 20.0, 1.0, 1e6,
                       "the last layer's share is the budget divided by beta; 1: uniform"),
      count_parameter("window", 0.0, 0, 1e6,
                      "entries that the first layer leaves out of those seen, and the least that "
                      "the last layer holds; else all hold the same")};
  entry.variants = {{"kvpress, with its window of 64", "pyramid(window=64)"}};
  entry.builder =
      LayerBudgetBuilder{[](const SpecPart& part, const LayerContext& context, int seen) {
        return pyramid_budget(context.model.caches_before(context.layer), context.model.caches(),
                              context.budget, part.number("beta"), seen, part.count("window"));
      }};
  entry.notes = [](const SpecPart& part, const ModelInfo& model, int budget) -> Lines {
    if (model.caches() < 2) return "pyramid: with one layer every head keeps the budget";
    if (std::nearbyint(budget / part.number("beta")) < 1.0 && part.number("beta") > 1.0 &&
        part.count("window") == 0) {
      return (
          "pyramid: the last layer's share rounds to 0; it keeps 1 entry per head, so all layers "
          "together exceed the budget");
    }
    return {};
  };
}

}  // namespace policies
}  // namespace kvloupe
