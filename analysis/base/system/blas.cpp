#include "analysis/base/system/blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <vector>

// What OpenBLAS does when it is loaded, and undoes when it is unloaded; absent where a library for
// one processor, or another BLAS, takes its place.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace kvloupe {

namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";

std::mutex mutex;
int alive = 0;
int before = 1;  // the first one's

std::string taken;  // by the library itself, where others were chosen

bool can_choose() { return gotoblas_dynamic_init != nullptr && gotoblas_dynamic_quit != nullptr; }

/// False where the library does not know these kernels.
bool take(const std::string& kernels) {
  gotoblas_dynamic_quit();
  setenv(kVariable, kernels.c_str(), 1);
  gotoblas_dynamic_init();
  unsetenv(kVariable);
  return kernels == openblas_get_corename();
}

/// Whether the library came with the program or library of this code, and not earlier: then nobody
/// else's products change.
bool came_with_us() {
  struct Search {
    const void* here;
    const void* library;
    bool ours = false, theirs = false;
  } search{reinterpret_cast<const void*>(&choose_blas_kernels),
           dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init")};
  if (search.library == nullptr)
    search.library = reinterpret_cast<const void*>(&gotoblas_dynamic_init);
  dl_iterate_phdr(  // in the order of loading
      [](dl_phdr_info* object, std::size_t, void* data) {
        Search& search = *static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& part = object->dlpi_phdr[i];
          const auto begin = object->dlpi_addr + part.p_vaddr;
          const auto holds = [&](const void* place) {
            const auto at = reinterpret_cast<std::uintptr_t>(place);
            return part.p_type == PT_LOAD && at >= begin && at < begin + part.p_memsz;
          };
          search.ours = search.ours || holds(search.here);
          search.theirs = search.theirs || holds(search.library);
        }
        return search.ours || search.theirs ? 1 : 0;
      },
      &search);
  return search.ours;
}

template <typename Number, typename Product>
bool product_is_right(const Product& product) {
  constexpr int m = 35, n = 37, k = 67;
  std::vector<Number> a(m * k), b(k * n), c(m * n, Number(0));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = Number((i * 37 % 101) / 101.0 - 0.4);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = Number((i * 53 % 97) / 97.0 - 0.6);
  for (const bool turned : {false, true}) {
    product(turned ? CblasTrans : CblasNoTrans, m, n, k, a.data(), b.data(), turned ? k : n,
            c.data());
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        double sum = 0.0;
        for (int i = 0; i < k; ++i)
          sum += double(a[row * k + i]) * double(turned ? b[column * k + i] : b[i * n + column]);
        if (!(std::abs(sum - double(c[row * n + column])) < 1e-3)) return false;
      }
    }
  }
  return true;
}

/// Before main(), when the libraries that this code needs are ready.
const bool chosen = [] {
  if (std::getenv(kVariable) == nullptr && can_choose() && came_with_us())
    choose_blas_kernels(processor_vectors());
  return true;
}();

}  // namespace

void use_one_blas_thread() { openblas_set_num_threads(1); }

OneBlasThread::OneBlasThread() {
  const std::lock_guard lock(mutex);
  if (alive++ > 0) return;
  before = openblas_get_num_threads();
  openblas_set_num_threads(1);
}

OneBlasThread::~OneBlasThread() {
  const std::lock_guard lock(mutex);
  if (--alive == 0) openblas_set_num_threads(before);
}

std::string_view better_kernels(std::string_view own, ProcessorVectors processor) {
  const auto is_one_of = [&](auto... names) { return ((own == names) || ...); };
  if (is_one_of("SkylakeX", "Cooperlake", "SapphireRapids")) return {};
  if (processor.avx512) return "SkylakeX";
  if (!processor.avx2 || is_one_of("Haswell", "Zen", "Excavator")) return {};
  return "Haswell";
}

bool products_are_right() {
  const bool single = product_is_right<float>([](auto turned, int m, int n, int k, const float* a,
                                                 const float* b, int stride, float* c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, turned, m, n, k, 1.0F, a, k, b, stride, 0.0F, c, n);
  });
  return single && product_is_right<double>([](auto turned, int m, int n, int k, const double* a,
                                               const double* b, int stride, double* c) {
           cblas_dgemm(CblasRowMajor, CblasNoTrans, turned, m, n, k, 1.0, a, k, b, stride, 0.0, c,
                       n);
         });
}

void choose_blas_kernels(ProcessorVectors processor, const std::function<bool()>& right) {
  if (!can_choose()) return;
  const std::string own = openblas_get_corename();
  const std::string better(better_kernels(own, processor));
  taken.clear();
  if (!better.empty() && take(better) && right()) {
    taken = own;
    return;
  }
  if (!better.empty()) take(own);
  constexpr const char* kOldest = "Prescott";  // of all that the library has for 64 bits
  if (!right() && own != kOldest && take(kOldest)) taken = own;
}

std::string blas_kernels() {
  if (!can_choose()) return "not known";
  const std::string now = openblas_get_corename();
  return taken.empty() ? now : now + " (OpenBLAS took " + taken + ")";
}

}  // namespace kvloupe
