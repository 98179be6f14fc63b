#pragma once
// Worked examples of docs/extending.md: each is one file of this folder and one line in
// examples_test.cpp that adds it.

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/measure/measure.h"
#include "app/figure/figure.h"

namespace kvloupe::examples {

PolicyEntry strided();
MeasureFamily mean_position();
figure::FigureInfo kept_tokens();

}  // namespace kvloupe::examples
