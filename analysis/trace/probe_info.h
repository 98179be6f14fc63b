#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// One reading of a part of the context after all of the context. Its tokens run as if they came
/// right after the context: token i of the pass has the position context_end + i, and its query
/// sees the context and the pass so far. No pass sees another one.
struct ProbePass {
  Block tokens;   // of the probe's tokens
  Block context;  // what is read again: the last context.size() tokens of the pass
};

/// A second pass over the context that a trace holds beside its tokens (`/probe`): the queries of
/// the model when it reads the context again (KVzip, KVCompose).
struct ProbeInfo {
  std::string kind;               // "repeat" or "reread"; of other programs any word
  int context_end = 0;            // the context: the tokens [0, context_end) of the trace
  std::vector<std::int32_t> ids;  // [P]
  std::vector<ProbePass> passes;  // one after the other over the probe's tokens

  int tokens() const { return static_cast<int>(ids.size()); }  // P
};

}  // namespace kvloupe
