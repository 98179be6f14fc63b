#pragma once

#include <string>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// How much of what later queries could see the heads still hold after the replay's last step, in
/// words: "31.2 % of the entries". What a policy whose budget is an outcome has in place of a budget.
std::string reached_share(const Replay& replay);

}  // namespace kvloupe
