#pragma once

#include <string>

#include "analysis/trace/trace.h"

namespace kvloupe::figure {

/// "asked by the answer's queries": whose queries a figure of later queries asks of this trace.
std::string asked_text(const Trace& trace);

}  // namespace kvloupe::figure
