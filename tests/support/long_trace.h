#pragma once

#include <cstdint>
#include <filesystem>

namespace kvloupe::test {

/// A trace of a large model's shape. By default one layer of Llama-3-8B's.
struct LongTraceOptions {
  int layers = 1;
  /// Else the first layer is written, and the others are the same data under other names.
  bool own_layers = false;
  int query_heads = 32;  // Hq
  int heads = 8;         // Hk
  int head_dim = 128;    // d
  int hidden_size = 0;   // D; 0: Hq · d
  int tokens = 32768;    // T
  int block = 128;
  std::uint64_t seed = 1;
};

/// Writes it in float16, block by block, with output projections and value norms. Log-sum-exps take
/// T² products: only layers of their own have them. Random numbers, but not all alike: the queries
/// of a head have a direction in common, which the key of token 0 has too (a sink), those of a few
/// others in part, and queries and keys drift together. A query head writes to coordinates of its
/// own, so the norms of v W_O are those of v.
void write_long_trace(const std::filesystem::path& target, const LongTraceOptions& options = {});

}  // namespace kvloupe::test
