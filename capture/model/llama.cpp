#include "capture/model/decoder_config.h"
#include "capture/model/families.h"

namespace kvloupe {

ModelConfig parse_llama(const ConfigReader& reader) {
  ModelConfig config = read_decoder(reader, /*own_kv_heads=*/true);
  config.qkv_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.mlp_bias = reader.flag_or("mlp_bias", false);
  check_layer_types(reader, config);
  return config;
}

}  // namespace kvloupe
