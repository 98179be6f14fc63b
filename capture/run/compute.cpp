#include "capture/run/compute.h"

#include <ATen/Parallel.h>
#include <cblas.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "analysis/cache/one_blas_thread.h"
#include "analysis/error.h"
#include "capture/run/processors.h"

namespace kvloupe {

namespace {

bool cpu_multiplies_bf16() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) return false;  // also asks the operating system
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1U << 5U)) != 0) return true;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1U << 22U)) != 0) return true;  // AMX
#endif
  return false;
}

/// How many threads the loops of this process may have.
std::optional<tbb::global_control>& loop_threads() {
  static std::optional<tbb::global_control> limit;
  return limit;
}

}  // namespace

at::Device parse_device(const std::string& text) {
  if (text == "cpu") return at::kCPU;
  int index = 0;
  const bool numbered = text.rfind("cuda:", 0) == 0;
  if (numbered) {
    const char* const first = text.data() + 5;
    const char* const last = text.data() + text.size();
    const auto [end, problem] = std::from_chars(first, last, index);
    if (problem != std::errc() || end != last || index < 0 || index > 127) {
      throw UsageError("--device " + text + ": give cpu, cuda or cuda:i with i from 0");
    }
  } else if (text != "cuda") {
    throw UsageError("--device " + text + ": give cpu, cuda or cuda:i");
  }
  if (!at::hasCUDA()) {
    throw WorkError("--device " + text + ": this machine's libtorch finds no CUDA device; use cpu");
  }
  const int count = static_cast<int>(at::getNumGPUs());
  if (index >= count) {
    throw WorkError("--device " + text + ": this machine has " + std::to_string(count) +
                    " CUDA devices; give a smaller index");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

at::ScalarType parse_compute_type(const std::string& text, at::Device device) {
  if (text == "f32") return at::kFloat;
  if (text == "bf16") return at::kBFloat16;
  if (text != "auto") throw UsageError("--dtype " + text + ": give auto, f32 or bf16");
  return !device.is_cpu() || cpu_multiplies_bf16() ? at::kBFloat16 : at::kFloat;
}

std::string compute_type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : "f32";
}

int use_threads(int threads, at::Device device, at::ScalarType type) {
  // Torch has read OMP_NUM_THREADS, and nothing else that says how many cores there are.
  static const int by_default = std::getenv("OMP_NUM_THREADS") != nullptr
                                    ? at::get_num_threads()
                                    : usable_cores(allowed_processors());
  const int wanted = threads > 0 ? threads : by_default;
  // Equal shares of libtorch's and the BLAS's own would wait for the slowest at each product.
  const bool own_loops = device.is_cpu() && type == at::kFloat;
  loop_threads().reset();
  loop_threads().emplace(tbb::global_control::max_allowed_parallelism,
                         static_cast<std::size_t>(wanted));
  at::set_num_threads(own_loops ? 1 : wanted);
  openblas_set_num_threads(own_loops ? 1 : wanted);
  return wanted;
}

std::optional<std::string> slow_product_warning() {
  constexpr std::int64_t kSize = 256;
  constexpr double kSlow =
      6.0;  // GFLOP/s of a core; the reference BLAS reaches 2 to 4, OpenBLAS 50 and more
  // One thread, and its own processor time: where other work keeps the processors busy, threads
  // that wait for each other spend time as well.
  const OneBlasThread one_thread;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const at::Tensor a = at::ones({kSize, kSize});
  at::mm(a, a);  // pages and kernels are loaded now
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = now();
    at::mm(a, a);
    best = std::min(best, now() - start);
  }
  const double speed = 2e-9 * kSize * kSize * kSize / std::max(best, 1e-6);
  if (speed >= kSlow) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                "float32 matrix products run at %.1f GFLOP/s here, probably without OpenBLAS; "
                "install libopenblas0-pthread for up to 60 times that",
                speed);
  return text;
}

}  // namespace kvloupe
