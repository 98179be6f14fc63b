#pragma once

#include "tests/support/synthetic_trace.h"

namespace kvloupe::test {

/// Makes every query rest on token 0, whose logit exceeds the others, which stay as small as they
/// are, by about `logit`: at 25 it has 1 − 1e-9 of the attention, exactly 1 in float32, and at 120
/// the others are too small to be float32 numbers at all.
void rest_on_first(SyntheticStates& states, float logit);

}  // namespace kvloupe::test
