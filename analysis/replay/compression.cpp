#include "analysis/replay/compression.h"

#include <algorithm>

namespace kvloupe {

std::vector<LayerCompression> layer_compression(const Replay& replay, int step) {
  const auto index = static_cast<std::size_t>(step);
  std::vector<LayerCompression> result;
  std::vector<int> heads;
  for (const HeadReplay& head : replay.heads) {
    const double seen = replay.blocks.at(index).end - replay.first_token(head, step);
    const double share = seen > 0.0 ? head.steps.at(index).retained / seen : 1.0;
    if (result.empty() || result.back().layer != head.layer) {
      result.push_back({head.layer, 0.0, share, share});
      heads.push_back(0);
    }
    LayerCompression& layer = result.back();
    layer.mean += share;
    layer.least = std::min(layer.least, share);
    layer.most = std::max(layer.most, share);
    ++heads.back();
  }
  for (std::size_t i = 0; i < result.size(); ++i) result[i].mean /= heads[i];
  return result;
}

}  // namespace kvloupe
