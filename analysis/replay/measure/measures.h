#pragma once
// Every family of measures, one line each, in the order of JSON keys, sweep columns and the docs. A
// line MEASURES(name) declares `MeasureFamily name()`, which one file of this folder defines, and
// puts it into the catalogue.

#include "analysis/replay/measure/measure.h"

// clang-format off
#define KVLOUPE_MEASURES(MEASURES) \
  MEASURES(retention)                   \
  MEASURES(perturbation)                \
  MEASURES(volume)                      \
  MEASURES(attention_spread)            \
  MEASURES(page_selection)              \
  MEASURES(two_stages)                  \
  MEASURES(lost_values)                 \
  MEASURES(eviction_error)              \
  MEASURES(policy_eviction_error)       \
  MEASURES(output_norm)                 \
  MEASURES(output_error)                \
  MEASURES(asked_by_question)           \
  MEASURES(asked_by_answer)             \
  MEASURES(asked_by_later)              \
  MEASURES(lost_evidence)               \
  MEASURES(merged_keys)                 \
  MEASURES(refitted_entries)            \
  MEASURES(key_diversity)               \
  MEASURES(key_alignment)               \
  MEASURES(key_geometry)                \
  MEASURES(key_attention)               \
  MEASURES(head_roles)                  \
  MEASURES(attention_entropy)           \
  MEASURES(score_prediction)
// clang-format on

namespace kvloupe::measures {

#define KVLOUPE_DECLARE_MEASURES(name) MeasureFamily name();
KVLOUPE_MEASURES(KVLOUPE_DECLARE_MEASURES)
#undef KVLOUPE_DECLARE_MEASURES

}  // namespace kvloupe::measures
