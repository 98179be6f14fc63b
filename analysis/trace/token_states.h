#pragma once

#include <memory>

#include "analysis/matrix.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// The states of some tokens, of all heads of a layer: what a reader takes that goes through a
/// trace token by token. May be used from any thread.
class TokenStates {
 public:
  /// Opens the trace's file a second time; the trace must outlive this. Throws FileError: another
  /// file stands there now.
  explicit TokenStates(const Trace& trace);
  ~TokenStates();

  /// The states of the block's m tokens as Trace has them, all heads one after the other: [Hq·m,d],
  /// [Hk·m,d], [Hk·m,d]. Throws UsageError for tokens that the trace lacks, FileError, and
  /// WorkError for numbers that are not finite.
  Matrix queries(int layer, const Block& tokens) const;
  Matrix keys(int layer, const Block& tokens) const;
  Matrix values(int layer, const Block& tokens) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe
