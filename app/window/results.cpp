#include "app/window/results.h"

#include <chrono>
#include <utility>

#include "analysis/policy/spec.h"

namespace kvloupe::window {

namespace {

constexpr int kQuickThreads = 2;
constexpr int kLongThreads = 1;
constexpr auto kBetweenPartialResults = std::chrono::milliseconds(120);

/// Replays and publishes what is there, but not more often than one can look.
Replay replay_in_parts(const TracePointer& trace, const ReplayRequest& request, Progress& progress,
                       const job::Computed<Replay>::Publish& publish) {
  Replay partial;
  partial.policy = request.policy.text();
  partial.budget = request.budget;
  const RunInfo& run = trace->run();
  partial.block = request.block > 0 ? request.block : run.block_size;
  partial.blocks = make_blocks(run.prompt_length, run.generated, partial.block);
  auto last = std::chrono::steady_clock::now();
  return replay(*trace, request, progress, [&](const std::vector<HeadReplay>& heads) {
    partial.heads.insert(partial.heads.end(), heads.begin(), heads.end());
    const auto now = std::chrono::steady_clock::now();
    if (now - last < kBetweenPartialResults) return;
    last = now;
    publish(partial);
  });
}

}  // namespace

Results::Results(std::function<void()> wake)
    : quick_(kQuickThreads, wake), long_(kLongThreads, std::move(wake)) {}

void Results::open(const std::filesystem::path& path) {
  // Opening the same path again reads it again: the file may have changed.
  trace_.request(quick_, path.string() + "#" + std::to_string(++opened_),
                 [path](Progress&, const auto&) -> TracePointer {
                   return std::make_shared<const Trace>(path);
                 });
}

TracePointer Results::trace() const {
  const auto value = trace_.value();
  return value ? *value : nullptr;
}

std::string Results::trace_key() const {
  const TracePointer open = trace();
  return open ? open->path().string() + "|" + open->identity() : std::string();
}

std::vector<Block> Results::blocks(const WorkspaceState& state) const {
  const TracePointer open = trace();
  if (!open) return {};
  const RunInfo& run = open->run();
  return make_blocks(run.prompt_length, run.generated, state.block > 0 ? state.block : run.block_size);
}

void Results::update(const WorkspaceState& state) {
  if (!trace()) return;
  request(a, state.policy_a, state);
  if (state.policy_b_on) {
    request(b, state.policy_b, state);
  } else {
    b.clear();
  }
}

void Results::request(PolicyResults& results, const std::string& spec, const WorkspaceState& state) {
  const TracePointer open = trace();
  ReplayRequest wanted;
  wanted.policy = parse_policy(spec);
  wanted.budget = parse_budget(state.budget).resolve(open->run().prompt_length);
  wanted.block = state.block;

  ReplayRequest focus = wanted;
  focus.layers = {state.selection.layer};
  focus.scores_layer = state.selection.layer;
  focus.scores_head = state.selection.head;
  const auto start = [&](job::Computed<Replay>& slot, job::JobQueue& queue, const ReplayRequest& r) {
    slot.request(queue, trace_key() + "|" + r.key(),
                 [open, r](Progress& progress, const job::Computed<Replay>::Publish& publish) {
                   return replay_in_parts(open, r, progress, publish);
                 });
  };
  start(results.focus, quick_, focus);
  start(results.all, long_, wanted);
}

}  // namespace kvloupe::window
