#pragma once
// HDF5 1.10 crashes on a trace whose text heap holds an object larger than the heap. In kvloupe a
// child process tries each trace first and finds that (trace_check.h). A fuzz target has no such
// child: it leaves these files out, or it would find nothing else.

#include <string_view>

namespace kvloupe::fuzz {

/// Whether each object in the file's text heaps ("GCOL" of the HDF5 file format, III.E) ends within
/// its heap.
bool text_heaps_are_sound(std::string_view file);

}  // namespace kvloupe::fuzz
