#include "app/request/request_policies.h"

#include <utility>

#include "app/figure/choice.h"

namespace kvloupe::request {

using figure::ChoiceInfo;
using figure::ChoiceKind;
using figure::FigureInfo;

std::vector<PolicySpec> policies_of(const FigureInfo& info, const FigureRequest& request) {
  std::vector<PolicySpec> policies;
  if (request.policy_a) policies.push_back(*request.policy_a);
  if (request.policy_b) policies.push_back(*request.policy_b);
  if (!request.policy_a) return policies;  // a list's A would be of nothing
  for (const ChoiceInfo& one : info.choices) {
    if (one.kind != ChoiceKind::policies) continue;
    for (PolicySpec& policy :
         figure::parse_policies(figure::choice(info, request.choices, one.name), *request.policy_a,
                                request.policy_b ? &*request.policy_b : nullptr)) {
      policies.push_back(std::move(policy));
    }
  }
  return policies;
}

}  // namespace kvloupe::request
