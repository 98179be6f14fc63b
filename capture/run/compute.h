#pragma once
// The device and precision of a model's run.

#include <ATen/ATen.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

/// "cpu", "cuda" or "cuda:i". Throws UsageError for another text, WorkError if this build or
/// machine has no such device.
at::Device parse_device(const std::string& text);

/// "auto", "f32" or "bf16". auto: bf16 where it is several times faster (a GPU, a CPU with
/// AMX-BF16), else f32, which is exact: AVX512-BF16 alone saves a third of the time at most
/// (measured on a Zen 5; docs/performance.md). Throws UsageError for another text.
at::ScalarType parse_compute_type(const std::string& text, at::Device device);
/// For a person: the type of that name, and why it was taken where `text` is auto.
std::string why_compute_type(const std::string& text, const std::string& name);

/// "f32" or "bf16", as a trace writes it.
std::string compute_type_name(at::ScalarType type);

/// Threads for a model of this type on this device; 0: what OMP_NUM_THREADS says, or else one for
/// each core that this process may use (processors.h). Loops of our own share out all that takes
/// long in float32 on the CPU; libtorch and OpenBLAS have one thread each there, and all of them
/// elsewhere. Returns the number.
int use_threads(int threads, at::Device device, at::ScalarType type);

/// A line of advice if a float32 product is as slow as without OpenBLAS. Takes a few milliseconds.
std::optional<std::string> slow_product_warning();

/// The processors that this process may run on (sched_getaffinity), ascending.
std::vector<int> allowed_processors();

/// How many threads have a core each: the physical cores among the allowed processors, of which two
/// may be one core's hyperthreads, but not more than the quotas of the process's cgroup and of
/// those above it (version 1 or 2) give, rounded down; at least 1. `root`: where /sys and /proc are
/// found; what cannot be read there limits nothing.
int usable_cores(const std::vector<int>& allowed, const std::filesystem::path& root = "/");

}  // namespace kvloupe
