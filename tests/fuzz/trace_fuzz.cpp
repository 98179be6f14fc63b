// A trace: everything in it is read, and a policy is replayed on it; with a probe, one that reads
// it.

#include <algorithm>

#include "analysis/replay/replay.h"
#include "analysis/trace/given_tokens.h"
#include "analysis/trace/trace_final_norm.h"
#include "analysis/trace/trace_probe.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/walked_trace.h"

KVLOUPE_FUZZ_TARGET(trace) {
  using namespace kvloupe;
  const std::filesystem::path path = fuzz::as_file(input, "trace.h5");
  if (test::walk_in_child(path) == test::Walked::crashed) return;
  const Trace trace(path);
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    if (model.attends()) trace.gate(layer);
    trace.residual_change(layer);
    for (int head = 0; head < model.num_heads; ++head) {
      trace.query(layer, head);
      trace.output_weight(layer, head);
      trace.value_out_norm(layer, head, Norm::l1);
      trace.attention_logsumexp(layer, head);
    }
    for (int head = 0; head < model.num_kv_heads; ++head) {
      trace.key(layer, head);
      trace.value(layer, head);
      trace.evicted_at(layer, head);
    }
    trace.merges(layer);
  }
  const TraceProbe probe(trace);
  for (int layer = 0; layer < trace.model().num_layers && probe.info(); ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    if (!model.attends()) continue;
    for (int head = 0; head < model.num_heads; ++head) probe.query(layer, head);
    for (int head = 0; head < model.num_kv_heads; ++head) probe.key(layer, head);
    probe.input_norm(layer);
  }
  const TraceFinalNorm norm(trace);
  if (norm.known()) {
    norm.rms(0);
    norm.normed(trace.length() - 1);
  }
  if (trace.has_lm_head() || !trace.head_row_ids().empty())
    norm.head_row(trace.tokens().ids.front());
  trace.predictions();
  given_tokens(trace);
  trace.lm_head();
  trace.vocabulary();
  trace.datasets();
  if (trace.run().closed_loop()) return;
  ReplayRequest request;
  request.policy = parse_policy(probe.info() ? "kvzip(plus=1)+global" : "h2o+recent(25%)");
  request.budget = std::max(1, trace.run().prompt_length / 2);
  request.threads = 1;
  Progress progress;
  replay(trace, request, progress);
}
