#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "analysis/numeric/logit_rule.h"

namespace kvloupe {

/// How the queries of one layer attend. What they see is the layer's window (ModelInfo).
struct LayerAttention {
  double scale = 0.0;              // the factor of q·k in the logits, usually 1/sqrt(d)
  double softcap = 0.0;            // logits are c·tanh(scale·q·k / c); 0: none
  std::vector<float> sink_logits;  // [Hq], see LogitRule; empty: none

  LayerAttention() = default;
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  LayerAttention(Number of_products) : scale(static_cast<double>(of_products)) {}  // NOLINT

  LogitRule of(int query_head) const {
    const auto index = static_cast<std::size_t>(query_head);
    return {scale, softcap,
            sink_logits.empty() ? LogitRule::kNoSink : static_cast<double>(sink_logits.at(index))};
  }
  /// That of `count` query heads from `first` on, which are then numbered from 0.
  LayerAttention of_heads(int first, int count) const {
    LayerAttention part = *this;
    if (!sink_logits.empty()) {
      part.sink_logits.assign(sink_logits.begin() + first, sink_logits.begin() + first + count);
    }
    return part;
  }
};

/// Attributes of one layer. A missing one is as in `/model` and `/run`.
struct LayerAttributes {
  std::optional<double> attention_scale;
  double attention_softcap = 0.0;
  std::optional<int> sliding_window;
  std::optional<double> rope_theta;
  std::optional<std::string> rope_scaling;
  std::vector<float> sink_logits;  // a dataset: [Hq] or empty
};

}  // namespace kvloupe
