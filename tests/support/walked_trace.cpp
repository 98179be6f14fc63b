#include "tests/support/walked_trace.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "analysis/trace/given_tokens.h"
#include "analysis/trace/trace_check.h"
#include "analysis/trace/trace_final_norm.h"
#include "analysis/trace/trace_probe.h"

// A fuzzer would save the input of a crash that is expected.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace kvloupe::test {

Walked walk_in_child(const std::filesystem::path& path) {
  constexpr int kPassed = 0, kRefused = 3;
  const pid_t child = fork();
  if (child == 0) {
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(nullptr);
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM})
      std::signal(number, SIG_DFL);
    const rlimit core{0, 0};
    setrlimit(RLIMIT_CORE, &core);
#if !defined(__SANITIZE_ADDRESS__)
    const rlimit memory{std::size_t{4} << 30U, std::size_t{4} << 30U};
    setrlimit(RLIMIT_AS, &memory);
#endif
    mallopt(M_PERTURB, 0xa5);
    alarm(10);
    int code = kPassed;
    try {
      walk_trace(path);
    } catch (const std::exception&) {
      code = kRefused;
    }
    _exit(code);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return Walked::crashed;
  if (WEXITSTATUS(status) == kPassed) return Walked::passed;
  return WEXITSTATUS(status) == kRefused ? Walked::refused : Walked::crashed;
}

void read_everything(const Trace& trace) {
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
}

}  // namespace kvloupe::test
