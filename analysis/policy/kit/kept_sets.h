#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

/// One layer's retained sets, read from a file.
class KeptSets {
 public:
  KeptSets(std::string path, int layer) : path_(std::move(path)), layer_(layer) {}

  /// In place of a head's number: the sets are of all heads of the layer that have none of their
  /// own.
  static constexpr int kAllHeads = -1;

  /// Token indices, ascending. Throws FileError if the file has no such head or step.
  const std::vector<std::int32_t>& at(int head, int step) const;
  const std::string& path() const { return path_; }
  /// The only step that has sets, where the file is of a program that compresses once: before that
  /// everything is kept, and afterwards all that comes.
  const std::optional<int>& once() const { return once_; }
  void set_once(int step) { once_ = step; }

  /// Throws FileError if the set was already added, or is not ascending from 0.
  void add(int head, int step, std::vector<std::int32_t> retained);

 private:
  std::string path_;
  int layer_;
  std::optional<int> once_;
  std::map<std::pair<int, int>, std::vector<std::int32_t>> sets_;  // (head, step)
};

/// Throws FileError unless a file that says its version (`kvloupe_sets`) has the one that is known.
void check_sets_version(const std::string& path, const std::string& version);

/// Reads the sets of one layer from a file (docs/sets.md). JSON, as `kvloupe replay --json` and
/// `kvloupe export-sets` write it: {"once", "heads": [{"layer", "head": a number or "all", "steps":
/// [{"step", "retained": [token indices]}]}]}. Other content is skipped; keys may come in any
/// order. Streamed: only the layer's sets are held. A name that ends with .safetensors: the tensors
/// that export-sets writes. Throws FileError: missing, unreadable, not of this form, cut short.
KeptSets read_kept_sets(const std::string& path, int layer);

}  // namespace kvloupe
