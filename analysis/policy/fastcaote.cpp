// fastcaote: caote with the plain mean of the values in place of the output.

#include "analysis/policy/policies.h"
#include "analysis/policy/value_aware_score.h"

namespace kvloupe::policies {

PolicyEntry fastcaote() {
  PolicyEntry entry;
  entry.name = "fastcaote";
  entry.kind = PartKind::value_aware;
  entry.summary = "caote with the plain mean of the values in place of the output";
  entry.formula =
      "c_j = h_j / max(1 - h_j, 1e-6) ||mean of v - v_j||, h = scores / their sum (first shifted "
      "by their minimum if some are negative; all zero: 1/n)";
  entry.source = "CAOTE section 3.3, eq. 23";
  entry.differences = "no public code; h is the score's mean over the group, as for caote";
  entry.wrap_score = [](const SpecPart&, const LayerContext&, std::unique_ptr<Score> base) {
    return make_value_aware_score(ValueAwareForm::fastcaote, std::move(base));
  };
  entry.refusal = [](const PolicySpec& spec) { return one_set_refusal(spec); };
  entry.doubts = [](const PolicySpec& spec) { return value_aware_doubts(spec, "fastcaote"); };
  return entry;
}

}  // namespace kvloupe::policies
