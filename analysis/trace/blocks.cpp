#include <algorithm>

#include "analysis/trace/model_info.h"

namespace kvloupe {

const char* compression_name(Compression compression) {
  return compression == Compression::regular ? "regular" : "context-only";
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
