#pragma once

#include <string>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// The share of the tokens visible to later queries that the heads still hold after the replay's
/// last step, in words: "31.2 % of the entries". It replaces the budget of a policy whose budget is
/// an outcome.
std::string reached_share(const Replay& replay);

}  // namespace kvloupe
