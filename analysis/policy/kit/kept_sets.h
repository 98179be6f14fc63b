#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

/// One layer's retained sets, read from a file.
class KeptSets {
 public:
  KeptSets(std::string path, int layer) : path_(std::move(path)), layer_(layer) {}

  /// Token indices, ascending. Throws FileError if the file has no such head or step.
  const std::vector<std::int32_t>& at(int head, int step) const;
  const std::string& path() const { return path_; }

  /// Throws FileError if the set was already added, or is not ascending from 0.
  void add(int head, int step, std::vector<std::int32_t> retained);

 private:
  std::string path_;
  int layer_;
  std::map<std::pair<int, int>, std::vector<std::int32_t>> sets_;  // (head, step)
};

/// Reads the sets of one layer from a file of the form that `kvloupe replay --json` writes:
/// {"heads": [{"layer", "head", "steps": [{"step", "retained": [token indices]}]}]}. Other content
/// is skipped; keys may come in any order. Streamed: only the layer's sets are held. Throws
/// FileError: missing, unreadable, not JSON, not of this form.
KeptSets read_kept_sets(const std::string& path, int layer);

}  // namespace kvloupe
