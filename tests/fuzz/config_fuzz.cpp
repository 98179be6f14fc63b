// A model's config.json.

#include "capture/model/model_config.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(config) {
  const kvloupe::ModelConfig config =
      kvloupe::parse_model_config(std::string(input), "config.json");
  kvloupe::fuzz::require(config.num_heads > 0 && config.num_kv_heads > 0 &&
                             config.num_heads % config.num_kv_heads == 0,
                         "heads that do not divide");
}
