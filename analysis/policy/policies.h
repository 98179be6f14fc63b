#pragma once
// Every part of a policy, one line each, in the order of a canonical spec. A line POLICY(name)
// declares a function of that name, which the file of that name defines: it fills in the entry of
// the catalogue that is called so. Modifiers read no queries unless they say so.

#include "analysis/policy/policy_catalog.h"

// clang-format off
#define KVLOUPE_SCORES(POLICY) \
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
  POLICY(expr)
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
KVLOUPE_SCORES(KVLOUPE_DECLARE_POLICY)
KVLOUPE_MODIFIERS(KVLOUPE_DECLARE_POLICY)
#undef KVLOUPE_DECLARE_POLICY

}  // namespace kvloupe::policies
