#include "analysis/policy/kit/probe_attention.h"

#include <algorithm>
#include <cmath>

#include "analysis/math/numeric/exponentials.h"
#include "analysis/math/numeric/logit_rule.h"

namespace kvloupe {

Eigen::MatrixXd window_attention(const Trace& trace, int layer, int query_head, int window,
                                 int end) {
  const ModelInfo model = trace.layer_model(layer);
  const LogitRule rule = trace.attention(layer).of(query_head);
  const int count = std::min(window, end);
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, query_head / model.group_size());
  Matrix logits = queries.middleRows(end - count, count) * keys.topRows(end).transpose();
  to_logits(logits, rule);
  Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(count, end);
  for (int row = 0; row < count; ++row) {
    const int token = end - count + row;
    const int first = first_seen(token, model.reach());
    const auto seen = logits.row(row).segment(first, token + 1 - first).cast<double>().array();
    double shift = seen.maxCoeff();
    if (rule.has_sink()) shift = std::max(shift, rule.sink);
    const Eigen::ArrayXd weights = (seen - shift).exp();
    rows.row(row).segment(first, token + 1 - first) =
        (weights / with_sink(weights.sum(), shift, rule)).matrix().transpose();
  }
  return rows;
}

namespace {
constexpr int kTileRows = 96;      // the library lays the keys out anew for each tile
constexpr float kUnseen = -1e30F;  // a logit whose exponential is 0
}  // namespace

void probe_rows(const ProbeInfo& probe, const LayerProbe& states, const ProbePass& pass,
                int query_head, const ProbeColumns& columns, int from, const Progress& progress,
                const std::function<void(int query, std::span<const float> row)>& body) {
  const auto head = static_cast<std::size_t>(states.model.head_of(query_head));
  const Matrix& queries = states.queries[static_cast<std::size_t>(query_head)];
  const Matrix& keys = states.keys[head];
  const LogitRule rule = states.attention.of(query_head);
  const Reach reach = states.model.reach();
  const int seen = columns.end - columns.first;
  const int before = columns.sinks + seen;  // columns of the context
  Matrix logits;
  for (int first = from; first < pass.tokens.end; first += kTileRows) {
    progress.check();
    const int end = std::min(first + kTileRows, pass.tokens.end);
    const int own = end - pass.tokens.first;  // keys of the pass that some query of the tile sees
    const auto rows = queries.middleRows(first, end - first);
    logits.resize(end - first, before + own);
    logits.leftCols(columns.sinks).noalias() = rows * keys.topRows(columns.sinks).transpose();
    logits.middleCols(columns.sinks, seen).noalias() =
        rows * keys.middleRows(columns.first, seen).transpose();
    logits.rightCols(own).noalias() =
        rows * states.own_keys[head].middleRows(pass.tokens.first, own).transpose();
    to_logits(logits, rule);
    for (int query = first; query < end; ++query) {
      auto row = logits.row(query - first);
      const int at = query - pass.tokens.first;
      row.segment(before + at + 1, own - at - 1).setConstant(kUnseen);
      if (!reach.all()) {
        // The oldest position that the query sees, of the context and of the pass.
        const int oldest = first_seen(probe.context_end + at, reach);
        row.head(std::min(columns.sinks, oldest)).setConstant(kUnseen);
        row.segment(columns.sinks, std::clamp(oldest - columns.first, 0, seen))
            .setConstant(kUnseen);
        row.segment(before, std::clamp(oldest - probe.context_end, 0, at)).setConstant(kUnseen);
      }
      const std::span<float> values(row.data(), static_cast<std::size_t>(row.size()));
      const float shift = softmax_shift(largest_of(values), rule);
      const double sum = with_sink(exponentials(values, shift), static_cast<double>(shift), rule);
      row.segment(columns.sinks, seen) *= static_cast<float>(1.0 / sum);
      body(query,
           values.subspan(static_cast<std::size_t>(columns.sinks), static_cast<std::size_t>(seen)));
    }
  }
}

}  // namespace kvloupe
