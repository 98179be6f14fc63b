#pragma once
// A policy with more tokens kept or dropped: the actions on the card of a token and on a chosen
// range.

#include <optional>
#include <string>

#include "analysis/math/sink.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/trace/segments.h"

namespace kvloupe::window {

enum class Intervention { keep, drop };

/// Tokens as `keep`, `drop` and the followed tokens take them: 12, or 12-20.
std::string ranges_text(TokenRange tokens);

/// The policy with `keep` or `drop` of the tokens, in one head or (nothing) in all. A modifier that
/// is there already takes the tokens too: its tokens and heads are those of both, as a policy has
/// one modifier of each name. Throws UsageError for a policy that takes no such modifier.
PolicySpec with_intervention(PolicySpec policy, Intervention what, TokenRange tokens,
                             std::optional<HeadIndex> head);

}  // namespace kvloupe::window
