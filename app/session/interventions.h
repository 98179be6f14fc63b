#pragma once
// A policy with one more token kept or dropped: what the card of a token offers.

#include <optional>
#include <string>

#include "analysis/metric/sink.h"

namespace kvloupe::window {

enum class Intervention { keep, drop };

/// The spec with `keep` or `drop` of the token, in one head or (nothing) in all. A modifier that is
/// there already takes the token too: its tokens and heads are those of both, as a policy has one
/// modifier of each name. Throws UsageError for a spec that is none, and for one that takes no such
/// modifier.
std::string with_intervention(const std::string& spec, Intervention what, int token,
                              std::optional<HeadIndex> head);

}  // namespace kvloupe::window
