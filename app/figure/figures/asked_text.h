#pragma once

#include <string>

#include "analysis/trace/trace.h"

namespace kvloupe::figure {

/// "for the answer's queries": the queries of this trace that a figure of later queries measures.
std::string asked_text(const Trace& trace);

}  // namespace kvloupe::figure
