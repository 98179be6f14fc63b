#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "analysis/policy/kit/knows_scores.h"
#include "analysis/policy/kit/probe_tables.h"
#include "analysis/policy/kit/stages.h"

namespace kvloupe {

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
