#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/policy/kit/known_scores.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/policy/kit/stages.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/probe_info.h"

namespace kvloupe {

class Trace;
struct LayerContext;

/// Input of the scores of one layer: E = ProbeInfo::context_end tokens of the context and the P
/// tokens of the probe, as stored. A part that was not asked for is empty.
struct LayerProbe {
  ModelInfo model;  // with the layer's own window
  LayerAttention attention;
  std::vector<Matrix> queries;                // [Hq] of [P,d]: the probe's
  std::vector<Matrix> own_keys;               // [Hk] of [P,d]: the probe's
  std::vector<Matrix> keys;                   // [Hk] of [E,d]
  std::vector<Matrix> values;                 // [Hk] of [E,d]
  std::vector<std::vector<float>> out_norms;  // [Hq] of [E]: ‖v_i W_O‖₂
  std::vector<float> input_norms;             // [P]: ‖h‖₂ of the attention's input
};

struct LayerProbeParts {
  bool values = false;
  bool norms = false;  // out_norms and input_norms
};

/// Source of the states of a probe: a trace, or a model that has just run it.
class ProbeSource {
 public:
  virtual ~ProbeSource() = default;
  virtual const ModelInfo& model() const = 0;
  /// Nothing: there is no probe.
  virtual const std::optional<ProbeInfo>& info() const = 0;
  virtual LayerProbe layer(int layer, LayerProbeParts parts) const = 0;
  /// The name of the file, for messages; empty: a running model.
  virtual std::string name() const = 0;
};

/// The probe of a trace, which is borrowed.
std::unique_ptr<ProbeSource> probe_of(const Trace& trace);

/// The scores that policies compute from a probe, each when first asked for. Thread-safe.
class ProbeTables {
 public:
  /// Both borrowed; `progress` (or null) cancels.
  ProbeTables(const ProbeSource& source, Progress* progress)
      : source_(source), progress_(progress) {}

  /// A score of entries that stay before all others: it becomes the largest of all layers + 1.
  static constexpr float kAboveAll = std::numeric_limits<float>::infinity();
  /// Scores [Hk] of [E] of a layer.
  using OfLayer = std::function<std::vector<std::vector<float>>(const ProbeInfo&, const LayerProbe&,
                                                                Progress&)>;
  /// Those of the part, made by the first who asks. Throws UsageError where there is no probe.
  std::shared_ptr<const KnownScores> once(const SpecPart& part, LayerProbeParts parts,
                                          const OfLayer& of_layer) const;

  /// The probe's states of one layer, without values and norms. Throws UsageError where there is no
  /// probe.
  LayerProbe states(const SpecPart& part, int layer) const;

 private:
  const ProbeSource& source_;
  Progress* progress_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const KnownScores>> tables_;
};

/// Throws UsageError if a part of the spec needs a probe and the trace has none.
void check_probe(const PolicySpec& spec, const Trace& trace);

/// The tables of the context: of the trace that is replayed, or of the running model. Throws
/// UsageError where it has neither.
const ProbeTables& probe_tables(const SpecPart& part, const LayerContext& context);

/// A score that is known for all entries before the first step, from a probe.
class ProbeScore : public Score, public KnowsScores {
 public:
  ProbeScore(SpecPart part, LayerContext context, LayerProbeParts parts,
             ProbeTables::OfLayer of_layer)
      : part_(std::move(part)),
        context_(std::move(context)),
        parts_(parts),
        of_layer_(std::move(of_layer)) {}

  void prepare(const StepView& /*view*/, int /*budget*/) override { known(); }
  std::vector<float> score(const StepView& view, int head) override {
    std::vector<float> scores;
    for (const std::int32_t token : view.caches[static_cast<std::size_t>(head)].tokens) {
      scores.push_back(scores_->at(context_.layer, head, token));
    }
    return scores;
  }
  std::shared_ptr<const KnownScores> known() override {
    if (!scores_) scores_ = probe_tables(part_, context_).once(part_, parts_, of_layer_);
    return scores_;
  }

 private:
  SpecPart part_;
  LayerContext context_;
  LayerProbeParts parts_;
  ProbeTables::OfLayer of_layer_;
  std::shared_ptr<const KnownScores> scores_;
};

}  // namespace kvloupe
