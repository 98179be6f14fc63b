#pragma once

#include <optional>
#include <string>

#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"
#include "capture/run/capture.h"
#include "tests/capture/naive_model.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {

/// An observer that keeps the notes.
class QuietObserver : public CaptureObserver {
 public:
  void on_tokens(int, int, int) override {}
  void on_note(const std::string& note) override { notes.push_back(note); }
  std::vector<std::string> notes;
};

/// Runs a capture without an audience.
CaptureSummary capture(const CaptureRequest& request);

/// A tiny model in a folder, and a sequence for it; runs share both.
struct TinyRun {
  TinyRun(TinyCheckpoint tiny, int tokens, unsigned seed);
  CaptureRequest request(int block = 16, const std::string& target = "trace.h5") const;
  /// With a policy in the cache, if it is named.
  Trace run(CaptureRequest request, const std::string& policy = "", const std::string& budget = "",
            Positions positions = Positions::original) const;

  TinyCheckpoint tiny_;
  std::optional<int> prompt_length_;
  AttentionStorage attention_ = AttentionStorage::full;
  const TemporaryFolder folder_;
};

Replay replay_of(const Trace& trace, const std::string& policy, int budget);

/// All numbers that a run computes, to the last bit.
void expect_same_numbers(const Trace& trace, const Trace& expected);

/// States, losses and top-5 of a trace against the naive model on the trace's own tokens.
void expect_like_naive(const Trace& trace, const NaiveModel& model, double tolerance);
void expect_like_naive(const Trace& trace, const NaiveModel::Result& naive, double tolerance);

/// Log-sum-exp, attention rows and value norms of a trace against recomputation in double from the
/// states in the trace, with each layer's window, cap and sink logits. `scale`: of the products
/// q·k; if not given 1/√d.
void expect_consistent(const Trace& trace);
void expect_consistent(const Trace& trace, double scale);

}  // namespace kvloupe::test
