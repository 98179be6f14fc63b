#include "capture/model/decoder_config.h"
#include "capture/model/families.h"

namespace kvloupe {

ModelConfig parse_qwen2(const ConfigReader& reader) {
  ModelConfig config = read_decoder(reader, /*own_kv_heads=*/false);
  config.qkv_bias = true;
  check_no_window(reader, config);
  check_layer_types(reader, config);
  return config;
}

}  // namespace kvloupe
