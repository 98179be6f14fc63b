// caote: a score becomes the change of the output that removing the entry makes.

#include "analysis/policy/kit/value_aware_score.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void caote(PolicyEntry& entry) {
  entry.summary =
      "the score, read as attention, times how much the output changes without the entry";
  entry.formula =
      "c_j = h_j / (1 - h_j) ||o - v_j||, o = sum h_i v_i, h = scores / their sum (first shifted "
      "by their minimum if some are negative; all zero: 1/n)";
  entry.source = "CAOTE eq. 8, 20 to 22; theorem 3.2";
  entry.needs = "the scores, values";
  entry.work = "2 n d operations per head";
  entry.differences =
      "no public code. The paper does not define grouped-query attention; here h is the score's "
      "mean over the group, and c_j an approximation. An entry beside which no other has attention "
      "stays. Protection applies afterwards";
  entry.variants = {{"CAOTE §3.3: FastCAOTE", "fastcaote"}};
  entry.builder =
      ScoreWrapper{[](const SpecPart&, const LayerContext&, std::unique_ptr<Score> base) {
        return make_value_aware_score(ValueAwareForm::caote, std::move(base));
      }};
  entry.refusal = value_aware_refusal;
  entry.doubts = value_aware_doubts;
  entry.notes = [](const SpecPart&, const ModelInfo& model, int) -> Lines {
    if (model.group_size() == 1) return {};
    return ("caote is exact for one query head; with " + std::to_string(model.group_size()) +
            " in a group, their mean makes it an approximation, typically off by 10 %");
  };
}

}  // namespace kvloupe::policies
