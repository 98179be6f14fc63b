// head roles: the tokens that a head attends to with the full cache.

#include "analysis/math/head_roles.h"

#include <string>

#include "analysis/policy/kit/spec.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily head_roles() {
  MeasureFamily family;
  family.group = MeasureGroup::full_cache;
  family.name = "Roles of a head";
  family.remark =
      "Measured on the trace with the full cache, over all queries; the mean over the head's query "
      "heads. A[q,i]: attention of query q to token i. NaN if the trace has no query to measure. "
      "Names of heads: follow.md. Thresholds:";
  family.scope = MeasureScope::trace;
  family.on_request = true;
  for (const RoleInfo& role : role_catalog()) {
    family.remark += std::string(&role == role_catalog().data() ? " " : ", ") + role.label + " " +
                     number_text(role.threshold);
    family.measures.push_back({.name = role.name,
                               .title = role.title,
                               .formula = role.formula,
                               .source = role.source,
                               .share = true,
                               .help = std::string("How strongly the head has the role \"") +
                                       role.label + "\", mean over its query heads.",
                               .reads = {.queries = true,
                                         .values = false,
                                         .output_weights = false,
                                         .value_norms = false,
                                         .logsumexp = true}});
  }
  family.remark += ".";
  family.of_trace = [](const MeasuredHead& head, std::span<double> values) {
    if (head.tokens == nullptr || head.states.logsumexp.empty()) return;
    const int group = head.context.model.group_size();
    std::vector<HeadRoles> roles;
    for (int i = 0; i < group; ++i) {
      const auto query_head = static_cast<std::size_t>(head.head * group + i);
      Progress part(head.progress, 0);
      roles.push_back(
          kvloupe::head_roles(view(head.states.queries[query_head]),
                              view(head.states.keys[static_cast<std::size_t>(head.head)]),
                              head.states.logsumexp[query_head],
                              head.context.attention.of(static_cast<int>(query_head)),
                              head.context.model.reach(), *head.tokens, part));
    }
    for (std::size_t role = 0; role < values.size(); ++role) {
      values[role] = 0.0;
      for (const HeadRoles& one : roles) values[role] += one.*role_catalog()[role].value / group;
    }
  };
  return family;
}

}  // namespace kvloupe::measures
