#include "analysis/replay/compresses_at_once.h"

#include <algorithm>

#include "analysis/replay/replay.h"
#include "analysis/trace/segments.h"

namespace kvloupe {

bool compresses_at_once(const Trace& trace, int block, std::optional<Compression> compression) {
  const int until =
      compression_end(trace.tokens(), trace.run(), replay_compression(trace, compression));
  const std::vector<Block> blocks = replay_blocks(trace, block, compression);
  return std::count_if(blocks.begin(), blocks.end(), [&](const Block& one) {
           return one.first < trace.run().prompt_length && one.end <= until;
         }) <= 1;
}

}  // namespace kvloupe
