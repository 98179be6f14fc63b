#pragma once

#include "analysis/trace/trace.h"
#include "capture/run/capture.h"
#include "tests/capture/naive_model.h"

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

/// States, losses and top-5 of a trace against the naive model on the trace's own tokens.
void expect_like_naive(const Trace& trace, const NaiveModel& model, double tolerance);
void expect_like_naive(const Trace& trace, const NaiveModel::Result& naive, double tolerance);

/// Log-sum-exp, attention rows and value norms of a trace against recomputation in double from the
/// states in the trace, with each layer's window, cap and sink logits. `scale`: of the products
/// q·k; if not given 1/√d.
void expect_consistent(const Trace& trace);
void expect_consistent(const Trace& trace, double scale);

}  // namespace kvloupe::test
