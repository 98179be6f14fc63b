#pragma once
// The catalogue as text.

#include <string>

#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

/// A value as a person would write it, without quotes.
std::string value_text(const SpecValue& value);

/// The values that a parameter may have: "a|b", "0|1", "1 to 100, odd", …
std::string range_text(const ParameterInfo& parameter);

/// docs/policies.md: every part with formula, parameters, defaults, source and what public
/// implementations do differently.
std::string policies_markdown();

}  // namespace kvloupe
