#pragma once
// The entries of the catalogue, one function per file of the same name. A new policy is a file
// that defines its entry, a line here and a line in policy_catalog.cpp.

#include "analysis/policy/policy_catalog.h"

namespace kvloupe::policies {

PolicyEntry full();
PolicyEntry sink();
PolicyEntry tova();
PolicyEntry h2o();
PolicyEntry snapkv();
PolicyEntry keydiff();
PolicyEntry keynorm();
PolicyEntry random();
PolicyEntry oracle();
PolicyEntry external();
PolicyEntry expr();

PolicyEntry recent();
PolicyEntry sinks();
PolicyEntry adakv();
PolicyEntry pyramid();
PolicyEntry caote();
PolicyEntry fastcaote();
PolicyEntry critical();

PolicyEntry kvmerger();
PolicyEntry cam();

}  // namespace kvloupe::policies
