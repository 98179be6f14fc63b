#pragma once

#include <cstdint>

namespace kvloupe {

/// Limits of a process that reads a stranger's file.
struct Confinement {
  std::uint64_t memory = 0;   // bytes of address space beyond what it has
  std::uint64_t seconds = 0;  // of processor time
};

/// From now on this process can only read files, write to its open descriptors, and end. It gets no
/// more memory and time than given, writes no file, leaves no core dump, and closes all files but
/// the three standard ones. On x86-64 and ARM64 with seccomp in the kernel, it also opens nothing
/// for writing, makes no connection, starts no program and sends no signal to others; elsewhere
/// only the limits hold. Under sanitizers, which reserve terabytes, the limit of memory does not
/// hold.
void confine_process(const Confinement& allowed);

}  // namespace kvloupe
