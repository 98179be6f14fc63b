#pragma once

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

/// An HDF5 file driver that writes a file which exists already, under any path that opens it. The
/// library's own driver asks for the real name behind a link, and a file that has no name yet
/// (UnfinishedFile) has none. Takes no lock. Registered once and never removed (checked_driver()).
/// Throws Failure.
hid_t output_driver();

}  // namespace kvloupe::hdf5
