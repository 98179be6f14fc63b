#include "app/figure/figures/asked_text.h"

#include <fmt/format.h>

#include "analysis/trace/asked_queries.h"

namespace kvloupe::figure {

std::string asked_text(const Trace& trace) {
  const Asked asked = asked_first(trace.tokens(), trace.run());
  return asked == Asked::later ? "for later queries"
                               : fmt::format("for the {}'s queries", asked_name(asked));
}

}  // namespace kvloupe::figure
