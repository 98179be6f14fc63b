#include "capture/model/decoder_config.h"
#include "capture/model/families.h"

namespace kvloupe {

ModelConfig parse_qwen3(const ConfigReader& reader) {
  // The family's config class assumes this head dimension, whatever hidden_size is.
  constexpr std::int64_t kHeadDim = 128;
  ModelConfig config = read_decoder(reader, /*own_kv_heads=*/false, kHeadDim);
  config.qkv_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.query_key_norm = true;
  check_no_window(reader, config);
  check_layer_types(reader, config);
  return config;
}

}  // namespace kvloupe
