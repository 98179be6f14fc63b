#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "analysis/progress.h"
#include "capture/model/transformer.h"
#include "capture/run/cache_policy.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// One sequence run through a model, perhaps with a policy in its caches.
class EvalRun {
 public:
  struct Options {
    int most_tokens = 0;
    int block = 128;
    std::optional<ClosedLoop> loop;  // without: the full cache
  };
  /// Throws as check_window() and CachePolicy do.
  EvalRun(const Transformer& model, const ModelInfo& info, const Options& options);

  /// Runs tokens in blocks; cuts the caches after each where asked to. `on_block` is given what
  /// leaves the last layer, [1,m,D], and the block's first token.
  void read(std::span<const std::int32_t> ids, bool cut, const Progress& progress,
            const std::function<void(const at::Tensor& hidden, int first)>& on_block = {});
  /// The most probable next token.
  std::int32_t choice() const;
  int length() const { return runner_.length(); }

 private:
  const Transformer& model_;
  int block_;
  BlockRunner runner_;
  std::optional<CachePolicy> policy_;
  at::Tensor last_;  // [1,1,D]: of the last token
};

}  // namespace kvloupe
