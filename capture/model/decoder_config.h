#pragma once

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// Reads the fields that the configs of all families share: sizes, norm, rotation, head, token ids.
/// Throws FileError through the reader: a field that is missing or impossible, another activation
/// than SiLU, a rotary scaling that is not known (see rope_scaling.h), partial rotation, quantised
/// weights. The families' classes differ if num_key_value_heads is absent: with `own_kv_heads`
/// there is one for each query head, else the field is required (null means one each). `head_dim`:
/// the default if the config has none; 0: hidden_size / num_attention_heads.
ModelConfig read_decoder(const ConfigReader& reader, bool own_kv_heads, std::int64_t head_dim = 0);

/// Refuses "layer_types" that contradict the window just read: layers that differ from each other,
/// or from the config's other fields.
void check_layer_types(const ConfigReader& reader, const ModelConfig& config);

/// Qwen's window: refuses use_sliding_window unless no layer has a window (max_window_layers counts
/// the first layers, which have none).
void check_no_window(const ConfigReader& reader, const ModelConfig& config);

}  // namespace kvloupe
