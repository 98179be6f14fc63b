#include <algorithm>
#include <numeric>

#include "analysis/trace/model_info.h"

namespace kvloupe {

const char* compression_name(Compression compression) {
  return compression == Compression::regular ? "regular" : "context-only";
}

const char* layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::attention:
      return "attention";
    case LayerKind::none:
      return "none";
    case LayerKind::shared:
      return "shared";
    case LayerKind::latent:
      return "latent";
  }
  return "";
}

int ModelInfo::caches_before(int layer) const {
  if (cache_heads.empty()) return layer;
  return static_cast<int>(std::count_if(cache_heads.begin(), cache_heads.begin() + layer,
                                        [](int heads) { return heads > 0; }));
}

int ModelInfo::cache_heads_before(int layer) const {
  if (cache_heads.empty()) return layer * num_kv_heads;
  return std::accumulate(cache_heads.begin(), cache_heads.begin() + layer, 0);
}

std::vector<Block> make_blocks(int prompt_length, int generated, int block, int border) {
  if (block <= 0 || block > prompt_length) block = prompt_length;
  std::vector<Block> blocks;
  for (int first = 0; first < prompt_length;) {
    const int most = first < border ? border : prompt_length;
    const int end = first + std::min(block, most - first);
    blocks.push_back({first, end});
    first = end;
  }
  for (int i = 0; i < generated; ++i) blocks.push_back({prompt_length + i, prompt_length + i + 1});
  return blocks;
}

}  // namespace kvloupe
