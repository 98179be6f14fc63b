#pragma once
// Reading parts of datasets, and unpacking those that are packed. Private to analysis/trace.

#include <cstdint>
#include <string>

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

// All throw Failure and are called under Lock.

/// gzip packs at most 1032 to 1: a dataset that claims more than this per stored byte is false, and
/// its claimed size would be allocated.
inline constexpr std::uint64_t kMostCompression = 1100;

/// Refuses a packed dataset that read_part() cannot unpack: another filter than gzip, shuffle and
/// Fletcher's checksum, text of variable length, more or larger chunks than the file could hold.
/// Nothing happens where the dataset is not packed.
void check_packing(const Dataset& dataset, const std::string& path, std::uint64_t file_bytes);

/// Reads `count` elements from `start` on into `into`: dense, in the HDF5 type `type`. A packed
/// dataset must have passed check_packing(). HDF5's filters never run: HDF5 1.10 reads beyond the
/// end of a chunk that unpacks to less than a chunk. kvloupe unpacks each chunk itself and refuses
/// one that does not have exactly the bytes of a chunk.
void read_part(const Dataset& dataset, const std::string& path, hid_t type, const Shape& start,
               const Shape& count, void* into);

}  // namespace kvloupe::hdf5
