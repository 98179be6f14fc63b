#pragma once
// Every modifier, one line each, in the order of a canonical spec. A line
// POLICY(name) declares a function of that name, which the file of that name defines: it fills in
// the entry of the catalogue that is called so. Modifiers read no queries unless they say so.

#include "analysis/policy/kit/policy_catalog.h"

// clang-format off
#define KVLOUPE_MODIFIERS(POLICY) \
  POLICY(recent)                        \
  POLICY(sinks)                         \
  POLICY(boundaries)                    \
  POLICY(keep)                          \
  POLICY(protect_prompt)                \
  POLICY(adakv)                         \
  POLICY(headbudgets)                   \
  POLICY(global)                        \
  POLICY(dms)                           \
  POLICY(pyramid)                       \
  POLICY(cake)                          \
  POLICY(lava)                          \
  POLICY(zigzag)                        \
  POLICY(caote)                         \
  POLICY(fastcaote)                     \
  POLICY(chunks)                        \
  POLICY(shared)                        \
  POLICY(critical)                      \
  POLICY(pages)                         \
  POLICY(kvmerger)                      \
  POLICY(cam)                           \
  POLICY(tome)                          \
  POLICY(drop)                          \
  POLICY(every)                         \
  POLICY(slack)                         \
  POLICY(only)                          \
  POLICY(quant)
// clang-format on

namespace kvloupe::policies {

#define KVLOUPE_DECLARE_POLICY(name) void name(PolicyEntry& entry);
KVLOUPE_MODIFIERS(KVLOUPE_DECLARE_POLICY)
#undef KVLOUPE_DECLARE_POLICY

}  // namespace kvloupe::policies
