#pragma once
// Parts of the catalogue that came from a shared library (policy_catalog.cpp).

#include <string>
#include <string_view>

#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

/// The origin of a part.
struct PartOrigin {
  std::string file;      // the shared library
  std::string identity;  // of that file when it was loaded (file_identity)
};

/// Whether the catalogue has a part of that name. Parts can still be added after it.
bool is_taken(std::string_view name);

/// As add_policy().
void add_policy(PolicyEntry entry, PartOrigin origin);

/// The origin of the part of that name; nullptr: it is one of the program's own.
const PartOrigin* origin_of(std::string_view name);

}  // namespace kvloupe
