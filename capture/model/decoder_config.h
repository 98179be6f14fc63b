#pragma once

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// What every family's config says: sizes, norm, rotation, head, token ids. Throws FileError
/// through the reader: a field missing or impossible, another activation than SiLU, a rotary
/// scaling that is not known (see rope_scaling.h), partial rotation, quantised weights. Where
/// num_key_value_heads is absent, `own_kv_heads` says that there is one for each query head; else
/// it must be there (null means the same), since the families' classes differ in what they assume.
/// `head_dim`: where the config gives none; 0: hidden_size / num_attention_heads.
ModelConfig read_decoder(const ConfigReader& reader, bool own_kv_heads, std::int64_t head_dim = 0);

/// Refuses "layer_types" that contradict the window just read: layers that differ from each other,
/// or from what the config's other fields say.
void check_layer_types(const ConfigReader& reader, const ModelConfig& config);

/// Qwen's window: refuses use_sliding_window unless it concerns no layer (max_window_layers counts
/// the first layers, which have none).
void check_no_window(const ConfigReader& reader, const ModelConfig& config);

}  // namespace kvloupe
