#pragma once

#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

/// The parameters `tokens` and `heads` of a modifier that names both (token_rule.h).
ParameterInfo tokens_parameter();
ParameterInfo heads_parameter();

}  // namespace kvloupe
