#pragma once
// What datasets are packed with. Private to analysis/trace.

#include <cstdint>
#include <string>

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

/// Refuses filters other than gzip, shuffle and Fletcher's checksum. HDF5's others (szip, n-bit,
/// scale-offset) trust what they unpack, and it would load code for those that it does not know.
/// `properties` are those of the creation of the dataset `path`. Throws Failure; call under Lock.
void check_filters(hid_t properties, const std::string& path);

/// Elements of one chunk. Throws Failure; call under Lock.
std::uint64_t chunk_elements(hid_t properties);

/// Unpacks every chunk of a packed dataset and refuses one that does not have exactly the bytes of
/// a chunk: HDF5 1.10 reads beyond the end of a chunk that unpacks to less. Nothing happens where
/// the dataset is not packed. Takes the time of reading it. Throws Failure; call under Lock.
void check_packed_chunks(const Dataset& dataset, const std::string& path, std::uint64_t file_bytes);

}  // namespace kvloupe::hdf5
