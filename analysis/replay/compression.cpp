#include "analysis/replay/compression.h"

#include <fmt/format.h>

#include "analysis/trace/segments.h"

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

bool compresses_at_once(const Trace& trace, int block, std::optional<Compression> compression) {
  const int until =
      compression_end(trace.tokens(), trace.run(), replay_compression(trace, compression));
  const std::vector<Block> blocks = replay_blocks(trace, block, compression);
  return std::count_if(blocks.begin(), blocks.end(), [&](const Block& one) {
           return one.first < trace.run().prompt_length && one.end <= until;
         }) <= 1;
}

std::string reached_share(const Replay& replay) {
  double entries = 0.0, seen = 0.0;
  for (const HeadReplay& head : replay.heads) {
    // A layer that reads another one's cache has no entries of its own.
    if (head.steps.empty() || head.shares_with >= 0) continue;
    const int last = static_cast<int>(head.steps.size()) - 1;
    entries += head.steps.back().retained;
    seen += replay.blocks[static_cast<std::size_t>(last)].end - replay.first_token(head, last);
  }
  return fmt::format("{:.1f} % of the entries", seen > 0.0 ? 100.0 * entries / seen : 100.0);
}

}  // namespace kvloupe
