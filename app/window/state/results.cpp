#include "app/window/state/results.h"

#include "analysis/base/core/error.h"
#include "analysis/replay/drift.h"
#include "analysis/trace/trace_check.h"

namespace kvloupe::window {

namespace {

// Who waits for a replay that another job makes does nothing else: more threads than work.
constexpr int kQuickThreads = 4;
constexpr int kAllLayersThreads = 4;
constexpr std::size_t kTracesAtHand = 6;

}  // namespace

Results::Results(std::function<void()> wake)
    : figures_(std::make_shared<request::FigureService>()),
      quick_(kQuickThreads, wake),
      all_layers_(kAllLayersThreads, wake),
      comparing_(1, std::move(wake)) {}

void Results::open(const std::filesystem::path& path) {
  // Opening the same path again reads it again: the file may have changed.
  trace_.request(quick_, path.string() + "#" + std::to_string(++opened_),
                 [path](Progress& progress, const auto&) -> TracePointer {
                   check_trace(path, progress);  // what takes long, and can be cancelled
                   return std::make_shared<const Trace>(path);
                 });
}

void Results::adopt(const TracePointer& trace) {
  trace_.request(quick_, trace->path().string() + "#" + std::to_string(++opened_),
                 [trace](Progress&, const auto&) { return trace; });
}

bool Results::take_opened() {
  take_evaluation();
  const auto read = trace_.held();
  if (!read.value || read.key == open_key_) return false;
  open_ = *read.value;
  open_key_ = read.key;
  return true;
}

TracePointer Results::next_trace() const {
  const auto read = trace_.value();
  return read ? *read : nullptr;
}

std::string Results::trace_key() const {
  const TracePointer open = trace();
  return open ? figure::trace_key(*open) : std::string();
}

std::vector<Block> Results::blocks(const WorkspaceState& state) const {
  const TracePointer open = trace();
  if (!open) return {};
  // A closed-loop trace has its own blocks; its replay refuses others and says so.
  if (open->run().closed_loop()) return open->blocks();
  return replay_blocks(*open, state.block, state.compression);
}

void Results::keep(const TracePointer& trace) {
  std::erase_if(at_hand_, [&](const TracePointer& one) { return one->path() == trace->path(); });
  at_hand_.push_back(trace);
  if (at_hand_.size() > kTracesAtHand) at_hand_.erase(at_hand_.begin());
}

std::vector<TracePointer> Results::other_loops() const {
  std::vector<TracePointer> found;
  const TracePointer open = trace();
  if (!open) return found;
  for (auto one = at_hand_.rbegin(); one != at_hand_.rend(); ++one) {
    if (*one != open && (is_drift_pair(*open, **one) || is_drift_pair(**one, *open)))
      found.push_back(*one);
  }
  return found;
}

TracePointer Results::other_loop() const {
  const std::vector<TracePointer> found = other_loops();
  for (const TracePointer& one : found) {
    if (replayed_ && is_same_policy(*replayed_, *one)) return one;
  }
  return found.empty() ? nullptr : found.front();
}

void Results::compare_loops(const std::shared_ptr<const Replay>& replay,
                            const figure::ReplayKey& key, int layer) {
  replayed_ = replay;
  const TracePointer other = other_loop();
  if (!other || !replay || !is_same_policy(*replay, *other)) return agreement_.clear();
  agreement_.request(quick_, {key, other->path().string() + other->identity()},
                     [replay, other, layer](Progress& progress, const auto&) {
                       return layer_agreement(*replay, *other, layer, progress);
                     });
}

void Results::open_evaluation(const std::filesystem::path& path) {
  evaluation_.request(quick_, path.string() + "#" + std::to_string(++opened_),
                      [path](Progress&, const auto&) -> EvaluationPointer {
                        return std::make_shared<const Evaluation>(read_evaluation(path));
                      });
}

void Results::take_evaluation() {
  const auto read = evaluation_.held();
  if (!read.value || read.key == evaluation_key_) return;
  evaluation_now_ = *read.value;
  evaluation_key_ = read.key;
  std::erase_if(evaluations_,
                [&](const EvaluationPointer& one) { return one->task == evaluation_now_->task; });
  evaluations_.push_back(evaluation_now_);
}

EvaluationPointer Results::evaluation(Evaluation::Task task) const {
  for (const EvaluationPointer& one : evaluations_) {
    if (one->task == task) return one;
  }
  return nullptr;
}

void Results::follow_trace() {
  const TracePointer open = trace();
  if (open && (at_hand_.empty() || at_hand_.back() != open)) keep(open);
  if (!open) return;
  given_.request(quick_, trace_key(),
                 [open](Progress&, const auto&) { return given_tokens(*open); });
  given_now_ = given_.current();
}

const GivenTokens& Results::given() const {
  static const GivenTokens none;
  return given_now_ ? *given_now_ : none;
}

request::FigureInputs Results::inputs(const figure::FigureInfo& info) const {
  request::FigureInputs inputs;
  if (const TracePointer open = trace()) inputs.traces.push_back(open);
  inputs.other_loop = other_loop();
  inputs.evaluation = evaluation();
  // The newest results that this figure can show. If there are none: why the last cannot be shown.
  for (const EvaluationPointer& one : evaluations_) {
    if (info.unfit && info.unfit(*one).empty()) inputs.evaluation = one;
  }
  return inputs;
}

std::string missing_input(const figure::FigureInfo& info, const request::FigureRequest& request) {
  switch (request::missing(info, request)) {
    case request::Missing::nothing:
      break;
    case request::Missing::evaluation:
      return "This view shows results of kvloupe-capture eval or rescue, or of kvloupe study: open "
             "such a file (Ctrl O).";
    case request::Missing::trace:
      return "This view shows a trace: open one (Ctrl O).";
    case request::Missing::other_loop:
      return "This view compares a full run with a closed-loop run of the same tokens: open the "
             "other run too, or run policy A in the model (Ctrl R).";
    case request::Missing::more_traces:
      return "This figure compares several traces. On the command line: kvloupe export TRACE TRACE "
             "--figure " +
             info.name;
    case request::Missing::policy_b:
      return "This view compares two policies. Switch policy B on (B).";
  }
  return {};
}

}  // namespace kvloupe::window
