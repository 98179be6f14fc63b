#pragma once

#include <ATen/ATen.h>

#include "analysis/base/core/progress.h"
#include "capture/model/kv_cache.h"
#include "capture/model/transformer.h"

namespace kvloupe {

/// The type in which a trace stores states; the trace's attention is computed from states of this
/// type.
enum class Storage { float32, float16 };

/// x in float32 as a reader of the trace sees it: rounded through float16 if it is stored so.
/// States that overflow float16 are stored as float32 and are not rounded.
at::Tensor as_stored(const at::Tensor& x, Storage storage);

struct BlockAttention {
  at::Tensor outputs;    // [Hq,m,d] in the cache's dtype: what the model goes on with
  at::Tensor logsumexp;  // [Hq,m] float32, of each row's logits, from the states as stored
  at::Tensor rows;       // [Hq,m,seen] float32 softmax rows from the states as stored, by token:
                         // zeros where causality or the window forbids, or the entry is gone;
                         // undefined unless asked for
};

struct AttentionOptions {
  double scale = 1.0;      // of the products q·k
  double softcap = 0.0;    // c: logits are c·tanh(scale·q·k / c); 0: none
  at::Tensor sink_logits;  // float32 [Hq]: one more logit of each row; undefined: none
  Storage storage = Storage::float32;
  bool keep_rows = false;
  /// Compact positions: row j rotates by −j positions. Every key, and every query like the key of
  /// its token, is then rotated from its token index to its place in the head's cache. Null:
  /// original positions.
  const Rotation* backward = nullptr;
  /// A query sees the entries of this many tokens, its own included; 0: all before it.
  std::int64_t window = 0;
  /// Use tensors, as on other devices, instead of the CPU's own loops for float32.
  bool plain = false;
};

/// Attends a block's queries [Hq,m,d], rotated to their token index, over a cache whose last m
/// entries are the block's own: causal inside the block, each head over the entries that it holds.
/// Logits and softmax in float32; the size of a merged entry is added to its logit after the cap.
/// Works through the queries in tiles, so it needs only some tens of
/// megabytes in addition to the result. Throws Cancelled through progress.
BlockAttention attend_block(const at::Tensor& query, const LayerCache& cache,
                            const AttentionOptions& options, const Progress& progress);

}  // namespace kvloupe
