#pragma once

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

/// An HDF5 file driver for reading files that nobody vouches for: it checks every global heap
/// collection (which holds text of variable length) before the library sees it. HDF5 1.10 has no
/// checksum there and follows damaged sizes out of its buffers or in an endless loop; HDF5 checks
/// all its other metadata itself. Use with H5Pset_driver. The driver is registered once and never
/// removed: when HDF5 closes a file it first releases the file's driver and then calls it, so a
/// driver that only its open files keep alive would be used after it was freed. Throws Failure.
hid_t checked_driver();

/// True if each of `count` variable-length elements, whose raw references are at `offset` of the
/// file, points at an object that exists. For datasets, because their references have no checksum
/// either.
bool heap_references_hold(const std::string& path, std::uint64_t offset, std::size_t count);

}  // namespace kvloupe::hdf5
