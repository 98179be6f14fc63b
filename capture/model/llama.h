#pragma once

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// LlamaForCausalLM: RMS norm, grouped-query attention with rotary positions (rotate-half pairs),
/// gated SiLU MLP, tied or separate head. Refuses by name what it does not compute: biases, other
/// activations, rotary scaling, partial rotation, quantised weights.
ModelConfig parse_llama(const ConfigReader& reader);

}  // namespace kvloupe
