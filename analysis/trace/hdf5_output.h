#pragma once
// Writing HDF5 files that hdf5.h can read: new files and datasets. Private to analysis/trace.

#include <filesystem>
#include <string>

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

// All throw Failure and are called under Lock.

/// Makes an HDF5 file of a file that exists, whatever is in it.
Handle create_file(const std::filesystem::path& path);

/// Opens a whole HDF5 file to add to it.
Handle change_file(const std::filesystem::path& path);

/// A dataset of `shape`; chunked and extendable up to that shape where `chunk` is not empty.
/// `cache` is the library's own chunk cache: 0 where rows should go straight to the file.
Handle create_dataset(hid_t file, const std::string& path, hid_t type, const Shape& shape,
                      const Shape& chunk, std::size_t cache);

/// Writes `count` elements from `start` on; `data` is dense and of memory type `type`.
void write_slab(hid_t dataset, hid_t type, const Shape& start, const Shape& count, const void* data,
                const std::string& path);

/// Makes a dataset and writes all of it; `data` is dense and of type `memory_type`.
void write_array(hid_t file, const std::string& path, hid_t file_type, hid_t memory_type,
                 const Shape& shape, const void* data);

}  // namespace kvloupe::hdf5
