#include "app/figure/query_head_rows.h"

namespace kvloupe::figure {

std::vector<QueryHeadRow> query_head_rows(const Trace& trace) {
  std::vector<QueryHeadRow> rows;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    rows.push_back({model.num_heads, model.group_size()});
  }
  return rows;
}

std::vector<int> query_heads_of_layers(const Trace& trace) {
  std::vector<int> heads;
  for (int layer = 0; layer < trace.model().num_layers; ++layer)
    heads.push_back(trace.layer_model(layer).num_heads);
  return heads;
}

std::vector<int> heads_of_layers(const Trace& trace) {
  std::vector<int> heads;
  for (int layer = 0; layer < trace.model().num_layers; ++layer)
    heads.push_back(trace.layer_model(layer).num_kv_heads);
  return heads;
}

}  // namespace kvloupe::figure
