#pragma once

#include <string>
#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::test {

inline constexpr int kFilledSide = 120;  // points, of the page they lie on

struct FilledPath {
  std::string name;
  figure::Path path;
};

/// Paths on which rules of filling differ: holes, sub-paths that overlap, edges that cross. Their
/// fill has no blue; on a white page blue tells how often a place was painted.
std::vector<FilledPath> filled_paths();

}  // namespace kvloupe::test
