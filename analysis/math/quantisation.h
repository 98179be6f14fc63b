#pragma once

#include <limits>

#include <Eigen/Core>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// How a cache holds entries in few bits (KIVI, section 3): numbers that share a scale and a zero
/// point are a group. The residual, the last entries of the cache, stays exact.
struct Quantisation {
  int bits = 4;
  int group = 64;
  bool keys_by_channel = true;     // groups run along the entries, one channel each; else along the
  bool values_by_channel = false;  // channels of one entry
  int residual = 128;
};

/// A cache that holds everything in 16 bits.
inline constexpr Quantisation kExactEntries{16, 64, true, false, std::numeric_limits<int>::max()};

/// The part of a head's cache that is held in few bits. Where groups run along the entries, a group
/// is stored as long as one of its entries stays.
struct StoredEntries {
  int keys = 0, key_groups = 0;  // entries; groups along the entries
  int values = 0, value_groups = 0;
  bool any() const { return keys > 0 || values > 0; }
};

/// Rounds rows [first, first + count) to what `bits` bits hold, in groups: lowest + code · step,
/// with step = (highest − lowest) / (2^bits − 1) and code the nearest whole number (KIVI, eq. 1).
/// by_channel: `count` is a multiple of the group's size; else the last group of a row may be
/// shorter. In double; the scale and the zero point are not rounded.
void quantise_rows(Matrix& rows, Eigen::Index first, Eigen::Index count, bool by_channel, int bits,
                   int group);

/// Bytes of one head's cache of this layer: exact numbers and each group's scale and zero point in
/// 16 bits. `stored`: of the `entries`, those in few bits. Values that are a part of the keys are
/// not stored again.
double bytes_of_entries(const ModelInfo& layer, int entries, const StoredEntries& stored,
                        const Quantisation& quantisation);
/// The same for a cache from which nothing was evicted after it was quantised: whole groups, and
/// all but the residual in few bits.
double planned_bytes(const ModelInfo& layer, int entries, const Quantisation& quantisation);

}  // namespace kvloupe
