#pragma once

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

/// An HDF5 file driver for reading files nobody vouches for: every global heap collection (where
/// text of variable length lies) is checked before the library sees it. HDF5 1.10 has no checksum
/// there and follows damaged sizes out of its buffers or round in circles; all its other metadata
/// it checks itself. For H5Pset_driver. Registered once and for good: as it closes a file the
/// library lets go of the file's driver first and then calls it, so that one which only its open
/// files keep is used after it was freed. Throws Failure.
hid_t checked_driver();

/// True where each of `count` variable-length elements whose raw references lie at `offset` of the
/// file points at an object that exists. For datasets, whose references carry no checksum either.
bool heap_references_hold(const std::string& path, std::uint64_t offset, std::size_t count);

}  // namespace kvloupe::hdf5
