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

  /// Given what leaves a layer, [1,m,D], and the block's first token.
  using HiddenHook = std::function<void(int layer, int first, const at::Tensor& hidden)>;
  /// Runs tokens in blocks; cuts the caches after each where asked to.
  void read(std::span<const std::int32_t> ids, bool cut, const Progress& progress,
            const HiddenHook& on_hidden = {});
  /// The most probable next token.
  std::int32_t choice() const;
  int length() const { return runner_.length(); }
  const Transformer& model() const { return model_; }

 private:
  const Transformer& model_;
  int block_;
  BlockRunner runner_;
  std::optional<CachePolicy> policy_;
  at::Tensor last_;  // [1,1,D]: of the last token
};

}  // namespace kvloupe
