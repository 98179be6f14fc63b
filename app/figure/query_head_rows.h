#pragma once

#include <vector>

#include "analysis/trace/trace.h"
#include "app/plot/cell_map.h"

namespace kvloupe::figure {

/// [L]: the query heads of each layer of the trace.
std::vector<QueryHeadRow> query_head_rows(const Trace& trace);
/// [L]: how many query heads each layer has; how many heads; 0 for one without a cache.
std::vector<int> query_heads_of_layers(const Trace& trace);
std::vector<int> heads_of_layers(const Trace& trace);

}  // namespace kvloupe::figure
