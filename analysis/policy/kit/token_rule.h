#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/trace/segments.h"

namespace kvloupe {

/// Heads as a person names them: "2.1" is head 1 of layer 2, "3" every head of layer 3.
struct HeadName {
  int layer = 0;
  int head = -1;  // −1: all of the layer
};

/// "120-131;140;200-": tokens, ranges with both ends included, and a range without an end. Fills
/// `ranges` in the order of the text; names the error if it cannot be read.
std::optional<TextProblem> read_tokens(std::string_view text, std::vector<TokenRange>& ranges);
/// "2.1;3": as HeadName says. An empty text names no head.
std::optional<TextProblem> read_heads(std::string_view text, std::vector<HeadName>& heads);

/// The tokens and heads that a modifier names, for one layer.
struct TokenRule {
  std::vector<TokenRange> tokens;
  std::vector<bool> heads;  // [Hk]
  /// Throws UsageError for a head that the model does not have.
  TokenRule(std::string_view tokens_text, std::string_view heads_text, const LayerContext& context);
  bool names(int head, std::int32_t token) const;
};

/// Throws UsageError for a head that the model does not have; the text was checked before.
void check_heads(std::string_view text, const ModelInfo& model);

/// How many tokens are named, of those before `length` (0: not known; a range without an end then
/// counts as nothing). Throws UsageError, with `who` in front, for a token at or beyond a known
/// length.
long count_tokens(const std::vector<TokenRange>& ranges, int length, std::string_view who);

}  // namespace kvloupe
