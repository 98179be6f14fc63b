#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "analysis/math/numeric/logit_rule.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// How the queries of one layer attend. The tokens that they see are in ModelInfo::reach().
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
  /// The attention of `count` query heads from `first` on, renumbered from 0.
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
  LayerKind kind = LayerKind::attention;
  std::string mixer;
  std::optional<int> num_heads, num_kv_heads, key_dim, value_dim;
  std::optional<int> shares_with;
  bool value_is_key_prefix = false;
  std::int64_t state_bytes = 0;
  int chunk_size = 0;
  std::optional<int> rotary_start, rotary_dim;
  bool gate = false;                  // the layer has the dataset
  std::string without_output_weight;  // why the layer has none; empty: it does not say
  std::optional<double> attention_scale;
  double attention_softcap = 0.0;
  std::optional<int> sliding_window;
  std::optional<double> rope_theta;
  std::optional<std::string> rope_scaling;
  std::vector<float> sink_logits;  // a dataset: [Hq] or empty
};

}  // namespace kvloupe
