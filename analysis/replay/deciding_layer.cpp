#include "analysis/replay/deciding_layer.h"

namespace kvloupe {

DecidingLayer::DecidingLayer(const Trace& trace, int layer, LayerStatesCache* cache,
                             const LayerContext& context, Progress& progress) {
  const int source = trace.layer_model(layer).shares_with;
  if (source < 0) return;
  states_ = layer_states(cache, trace, source, StateParts(), progress);
  LayerContext own = context;
  own.layer = source;
  own.model = trace.layer_model(source);
  own.attention = trace.attention(source);
  own.output_weights = states_->output_weights;
  decider_.emplace(LayerDecider{*states_, nullptr, std::move(own)});
}

}  // namespace kvloupe
