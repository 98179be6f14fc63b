#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <vector>

#include "capture/model/projection.h"

namespace kvloupe {

/// Does several works, each a run of the same model, until all have ended. While a model writes,
/// every token of every run needs products of one row with all weights, and reading these is most
/// of the time. So each work waits at such a product until the others want one too, and the weights
/// are read once for all. A run's bits are those of the run alone. Between products one work at a
/// time goes on. Works do not throw.
void run_together(const std::vector<std::function<void()>>& works);

/// For project(): the products of x [1,…,k] together with those of the other works; nothing where
/// this thread does no work of run_together().
std::optional<std::vector<at::Tensor>> project_together(const at::Tensor& x,
                                                        Projections projections);

}  // namespace kvloupe
