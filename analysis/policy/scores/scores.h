#pragma once
// Every score, one line each, in the order of the catalogue. A line
// POLICY(name) declares a function of that name, which the file of that name defines: it fills in
// the entry of the catalogue that is called so.

#include "analysis/policy/kit/policy_catalog.h"

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
// clang-format on

namespace kvloupe::policies {

#define KVLOUPE_DECLARE_POLICY(name) void name(PolicyEntry& entry);
KVLOUPE_SCORES(KVLOUPE_DECLARE_POLICY)
#undef KVLOUPE_DECLARE_POLICY

}  // namespace kvloupe::policies
