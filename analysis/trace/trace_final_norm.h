#pragma once

#include <cstdint>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class TraceDatasets;

/// Advice in a message about a trace without the whole output head.
inline constexpr const char* kCaptureOutputHead =
    "capture the prompt again with kvloupe-capture run … --lm-head";

/// The ids of the rows of the output head that an open file has in place of the whole head: each of
/// the sequence's ids and at most as many as it has tokens, ascending; empty: it has none. Rows of
/// a wrong shape and ids out of order or of range are refused. Throws hdf5::Failure; called under
/// hdf5::Lock.
std::vector<std::int32_t> find_head_rows(const TraceDatasets& datasets, const ModelInfo& model,
                                         const TokenTable& tokens);

/// Whether an open file says all that TraceFinalNorm reads. Datasets of a wrong shape are refused.
/// Throws hdf5::Failure; called under hdf5::Lock.
bool find_final_norm(const TraceDatasets& datasets, const ModelInfo& model, const RunInfo& run);

/// The way from the residual stream x [D] after the last layer to the logits, as a trace has it:
///
///   h = weight ⊙ x̂ + bias,  x̂ = x / rms,  rms = √(mean(x²) + ε),  logits = h · lm_headᵀ,
///
/// x less its mean where the norm is centred (a LayerNorm). A trace says so only if the model adds
/// the heads' outputs to x as W_O makes them, without another norm or factor. All methods may
/// be called from any thread.
///
/// Throws FileError where a number is not finite; UsageError for a token or id that the trace
/// lacks.
class TraceFinalNorm {
 public:
  /// The trace must outlive it.
  explicit TraceFinalNorm(const Trace& trace);

  /// False: the trace does not describe the norm; only head_row() may be called.
  bool known() const { return trace_.has_final_norm(); }
  const Eigen::VectorXd& weight() const { return weight_; }  // [D]
  bool centred() const { return centred_; }
  double rms(int token) const;
  /// x̂ of one token: [D]. 0 where the weight is 0, because h does not determine x̂ there.
  Eigen::VectorXd normed(int token) const;
  /// The output head's row of one token of the vocabulary: [D]; without the whole head, of one that
  /// occurs in the trace.
  Eigen::VectorXd head_row(std::int32_t id) const;

 private:
  Eigen::VectorXd row(const char* name, int rows, int index, const char* what) const;

  const Trace& trace_;
  bool centred_ = false;
  Eigen::VectorXd weight_, bias_;
};

}  // namespace kvloupe
