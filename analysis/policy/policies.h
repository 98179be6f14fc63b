#pragma once
// Every part of a policy, one line each: scores first, then modifiers, in the order of a canonical
// spec. A line POLICY(name) declares `PolicyEntry name()`, which the file of that name defines, and
// puts it into the catalogue.

#include "analysis/policy/policy_catalog.h"

// clang-format off
#define KVLOUPE_POLICIES(POLICY) \
  POLICY(full)                          \
  POLICY(sink)                          \
  POLICY(tova)                          \
  POLICY(h2o)                           \
  POLICY(snapkv)                        \
  POLICY(keydiff)                       \
  POLICY(keynorm)                       \
  POLICY(expected)                      \
  POLICY(qfilter)                       \
  POLICY(lagkv)                         \
  POLICY(noncausal)                     \
  POLICY(leverage)                      \
  POLICY(compactor)                     \
  POLICY(cur)                           \
  POLICY(capkv)                         \
  POLICY(dropkv)                        \
  POLICY(rkv)                           \
  POLICY(defensive)                     \
  POLICY(cakescore)                     \
  POLICY(lavascore)                     \
  POLICY(vatp)                          \
  POLICY(valuerange)                    \
  POLICY(vase)                          \
  POLICY(raas)                          \
  POLICY(longflow)                      \
  POLICY(thinkv)                        \
  POLICY(epikv)                         \
  POLICY(centrality)                    \
  POLICY(triattention)                  \
  POLICY(attentionmatching)             \
  POLICY(kvzip)                         \
  POLICY(kvcompose)                     \
  POLICY(simlayer)                      \
  POLICY(duo)                           \
  POLICY(random)                        \
  POLICY(oracle)                        \
  POLICY(external)                      \
  POLICY(python)                        \
  POLICY(expr)                          \
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

#define KVLOUPE_DECLARE_POLICY(name) PolicyEntry name();
KVLOUPE_POLICIES(KVLOUPE_DECLARE_POLICY)
#undef KVLOUPE_DECLARE_POLICY

}  // namespace kvloupe::policies
