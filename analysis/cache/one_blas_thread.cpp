#include "analysis/cache/one_blas_thread.h"

#include <cblas.h>

#include <mutex>

namespace kvloupe {

namespace {
std::mutex mutex;
int alive = 0;
int before = 1;  // the first one's
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

}  // namespace kvloupe
