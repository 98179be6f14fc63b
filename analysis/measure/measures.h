#pragma once

#include "analysis/measure/measure.h"

/// One function per family, each in its own file.
namespace kvloupe::measures {

MeasureFamily retention();
MeasureFamily perturbation();
MeasureFamily volume();
MeasureFamily attention_spread();
MeasureFamily two_stages();
MeasureFamily eviction_error();
MeasureFamily policy_eviction_error();
MeasureFamily output_norm();
MeasureFamily output_error();
MeasureFamily merged_keys();
MeasureFamily key_diversity();
MeasureFamily key_alignment();
MeasureFamily key_geometry();
MeasureFamily key_attention();

}  // namespace kvloupe::measures
