#pragma once

#include <string>
#include <vector>

namespace kvloupe {

/// A policy by the name that kvpress gives it.
struct Preset {
  std::string name;  // the press's own, with its defaults; "Outer(Inner)" wraps as there
  std::string spec;
  std::string differs;  // where the press does something else; empty: scripts/test-kvpress.sh finds
                        // the same entries kept, except for equal scores
  std::string compared = "0.5.5";  // with the press of which release; empty: of none
};

/// All presses that have an equal here, by name. The names are also accepted as policies.
const std::vector<Preset>& presets();

}  // namespace kvloupe
