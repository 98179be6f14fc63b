#pragma once

#include <string_view>

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Tokens [first, end).
struct TokenRange {
  int first = 0, end = 0;
  bool empty() const { return end <= first; }
  bool contains(int token) const { return token >= first && token < end; }
  bool operator==(const TokenRange&) const = default;
};

/// From the first to the last token of the segment of that name; empty where the trace has none.
TokenRange segment_range(const TokenTable& tokens, std::string_view name);

}  // namespace kvloupe
