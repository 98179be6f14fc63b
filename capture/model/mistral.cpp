#include "capture/model/decoder_config.h"
#include "capture/model/families.h"

namespace kvloupe {

ModelConfig parse_mistral(const ConfigReader& reader) {
  ModelConfig config = read_decoder(reader, /*own_kv_heads=*/false);
  // An absent field is not null: the family's config class then assumes this window.
  constexpr std::int64_t kAssumed = 4096;
  const std::int64_t absent = reader.has("sliding_window") ? 0 : kAssumed;
  config.sliding_window = reader.size_or("sliding_window", kLongestContext, absent);
  check_layer_types(reader, config);
  return config;
}

}  // namespace kvloupe
