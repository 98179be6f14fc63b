#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace kvloupe {

/// Does several works, each a run of the same model, until all have ended. While a model writes,
/// every token of every run needs all weights, and reading these is most of the time. So each work
/// waits at a part of the model until the others come to it too, and the weights are read once for
/// the tokens of all. A run's bits are those of the run alone. Between such parts one work at a
/// time goes on. Works do not throw.
void run_together(const std::vector<std::function<void()>>& works);

/// A tensor and its dimension of tokens.
struct AlongTokens {
  at::Tensor x;  // undefined: there is none
  std::int64_t dimension = 0;
};

/// A part of a model that computes each token by itself.
using TokenPart = std::function<std::vector<AlongTokens>(const std::vector<at::Tensor>&)>;

/// What `part` makes of `inputs`, each of one token; in a work of run_together() for the tokens of
/// all works that come to the part called `name`, in batches that leave a row its bits
/// (kFewRows).
std::vector<at::Tensor> compute_together(std::pair<const void*, int> name,
                                         const std::vector<AlongTokens>& inputs,
                                         const TokenPart& part);
/// Whether this thread does a work of run_together().
bool runs_together();

}  // namespace kvloupe
