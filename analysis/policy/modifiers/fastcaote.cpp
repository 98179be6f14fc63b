// fastcaote: caote with the plain mean of the values in place of the output.

#include "analysis/policy/kit/value_aware_score.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void fastcaote(PolicyEntry& entry) {
  entry.summary = "caote with the plain mean of the values in place of the output";
  entry.formula =
      "c_j = h_j / max(1 - h_j, 1e-6) ||mean of v - v_j||, h = scores / their sum (first shifted "
      "by their minimum if some are negative; all zero: 1/n)";
  entry.source = "CAOTE section 3.3, eq. 23";
  entry.needs = "the scores, values";
  entry.work = "n d operations per head";
  entry.differences = "no public code; h is the score's mean over the group, as for caote";
  entry.variants = {{"CAOTE eq. 8: the output itself", "caote"}};
  entry.builder =
      ScoreWrapper{[](const SpecPart&, const LayerContext&, std::unique_ptr<Score> base) {
        return make_value_aware_score(ValueAwareForm::fastcaote, std::move(base));
      }};
  entry.refusal = value_aware_refusal;
  entry.doubts = value_aware_doubts;
}

}  // namespace kvloupe::policies
