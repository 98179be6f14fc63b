#include "analysis/study/study_work.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <tuple>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/math/head_roles.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/model_files.h"

namespace kvloupe {

namespace {
constexpr std::size_t kMostStates = std::size_t{1} << 30U;
constexpr std::size_t kMostShared = std::size_t{1} << 28U;
constexpr std::size_t kMostPrefix = std::size_t{1} << 26U;

/// The mean of the numbers that are known; NaN where none is.
class KnownMean {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const {
    return count_ > 0 ? sum_ / static_cast<double>(count_)
                      : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  double sum_ = 0.0;
  long count_ = 0;
};

bool by_step(const Measure& measure) {
  return measure.family->scope == MeasureScope::step ||
         measure.family->scope == MeasureScope::query_head;
}

/// One measure's values: of the replay, then what `reduce` keeps beside that.
void append_values(const Replay& replay, const Measure& measure, int index, Reduce reduce,
                   std::vector<StudyValue>& values) {
  const std::size_t first = values.size();
  values.push_back({index});
  KnownMean whole;
  std::vector<KnownMean> steps(by_step(measure) ? replay.blocks.size() : 0);
  for (const HeadReplay& head : replay.heads) {
    const double of_head = measure_of(measure, head);
    whole.add(of_head);
    if (reduce == Reduce::steps || reduce == Reduce::none) {
      values.push_back({index, head.layer, head.head, -1, of_head});
    }
    if (reduce != Reduce::none && reduce != Reduce::heads) continue;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const double at = measure_at(measure, head.steps.at(s));
      steps[s].add(at);
      if (reduce == Reduce::none) {
        values.push_back({index, head.layer, head.head, static_cast<int>(s), at});
      }
    }
  }
  values[first].value = whole.value();
  if (reduce != Reduce::heads) return;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    values.push_back({index, -1, -1, static_cast<int>(s), steps[s].value()});
  }
}
}  // namespace

StudyWorker::StudyWorker(int threads) : threads_(threads), states_(kMostStates) {}

void StudyWorker::open(const StudyTask& task) {
  if (!trace_ || trace_->path() != task.trace) {
    trace_.reset();
    shared_.reset();
    trace_ = std::make_unique<Trace>(task.trace);
    model_ = stored_model_fingerprint(task.trace);
    roles_told_ = false;
    prefix_ = std::make_unique<SharedPrefix>(kMostPrefix);
  }
  if (trace_->identity() != task.identity) {
    trace_.reset();
    throw FileError(task.trace, "has changed since the study began; start the study again");
  }
  if (!shared_ || measures_ != task.measures) {
    shared_ = std::make_unique<SharedMeasures>(kMostShared);
    measures_ = task.measures;
  }
}

std::vector<StudyValue> StudyWorker::values(const StudyTask& task) {
  open(task);
  Progress progress;
  ReplayRequest request{.policy = parse_policy(task.policy),
                        .budget = task.entries,
                        .block = task.block,
                        .compression = compression_words().at(task.compression),
                        .measures = task.measures,
                        .cheap = false,
                        .threads = threads_,
                        .states = &states_,
                        .shared = shared_.get(),
                        .prefix = prefix_.get()};
  // Whether the results keep values over all steps instead of values per step.
  request.summary = task.reduce == Reduce::all || task.reduce == Reduce::steps;
  // measure_replay() computes only the requested measures from a finished replay. With merged
  // entries or measures of scores it would replay again, so the replay measures at once.
  request.metrics = makes_entries(request.policy) || has_part(request.policy, PartKind::storage) ||
                    reads_scores({false, task.measures}, request.policy);
  Replay result = replay(*trace_, request, progress);
  if (!request.metrics) {
    MeasureRequest measured{.measures = task.measures,
                            .summary = request.summary,
                            .states = &states_,
                            .shared = shared_.get(),
                            .threads = threads_};
    result = measure_replay(*trace_, result, measured, progress);
  }
  std::vector<StudyValue> values;
  for (std::size_t i = 0; i < task.measures.size(); ++i) {
    append_values(result, require_measure(task.measures[i]), static_cast<int>(i), task.reduce,
                  values);
  }
  return values;
}

/// The roles of every query head of the open trace.
std::vector<StudyRole> StudyWorker::roles() {
  Progress progress;
  ReadsRequest request{.tokens = {0}, .roles = true, .states = &states_};
  std::vector<StudyRole> roles;
  for (const TokenReads& head : token_reads(*trace_, request, progress)) {
    const auto group = static_cast<int>(head.roles.size());
    for (int i = 0; i < group; ++i) {
      for (int role = 0; role < static_cast<int>(role_catalog().size()); ++role) {
        const double value = head.roles[static_cast<std::size_t>(i)].*
                             role_catalog()[static_cast<std::size_t>(role)].value;
        roles.push_back({head.layer, head.head, head.head * group + i, role, value});
      }
    }
  }
  return roles;
}

void StudyWorker::compute(const StudyTask& task, StudyOutcome& outcome) {
  outcome.values = values(task);
  outcome.model = model_;
  // A study asks for a role as a measure of heads, but roles belong to query heads.
  const auto is_role = [](const std::string& measure) {
    return std::any_of(role_catalog().begin(), role_catalog().end(),
                       [&](const RoleInfo& role) { return measure == role.name; });
  };
  if (!roles_told_ && task.reduce != Reduce::all && task.reduce != Reduce::heads &&
      std::any_of(task.measures.begin(), task.measures.end(), is_role)) {
    outcome.roles = roles();
    roles_told_ = true;
  }
  outcome.at_once =
      compresses_at_once(*trace_, task.block, compression_words().at(task.compression));
}

StudyOutcome ItemWorker::compute(const StudyTask& task) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  StudyOutcome outcome;
  outcome.item = task.item;
  try {
    compute(task, outcome);
  } catch (const std::bad_alloc&) {
    outcome.failure = std::current_exception();
    outcome.problem = "out of memory; try fewer processes, or a smaller block";
  } catch (const std::exception& error) {
    outcome.failure = std::current_exception();
    outcome.problem = in_one_line(error.what(), 400);
  } catch (...) {
    outcome.failure = std::current_exception();
    outcome.problem = "a failure without a message; this is a defect of kvloupe or of a plugin";
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return outcome;
}

std::vector<StudyOutcome> ItemWorker::compute_all(std::span<const StudyTask> tasks) {
  std::vector<StudyOutcome> outcomes;
  for (const StudyTask& task : tasks) outcomes.push_back(compute(task));
  return outcomes;
}

// Task and outcome as bytes: the list of each one's fields as CBOR. One list serves writing and
// reading.

using nlohmann::json;

namespace {
auto fields_of(PromptPlace& place) {
  return std::tie(place.name, place.path, place.line, place.at, place.question);
}
auto fields_of(StudySource& source) {
  return std::tie(source.name, source.identity, source.task, source.prompt, source.length,
                  source.depth, source.sample, source.needles, source.seed, source.answer_tokens);
}
auto fields_of(StudyTask& task) {
  return std::tie(task.item, task.trace, task.identity, task.policy, task.source, task.model,
                  task.dtype, task.compact, task.probe, task.budget, task.largest_budget,
                  task.entries, task.block, task.compression, task.reduce, task.measures, task.chat,
                  task.system);
}
auto fields_of(StudyRole& role) {
  return std::tie(role.layer, role.head, role.query_head, role.role, role.value);
}
auto fields_of(StudyValue& value) {
  return std::tie(value.measure, value.layer, value.head, value.step, value.value);
}
auto fields_of(StudyPrompt& prompt) {
  return std::tie(prompt.stored, prompt.expected, prompt.answer);
}
auto fields_of(StudyOutcome& outcome) {
  return std::tie(outcome.item, outcome.problem, outcome.seconds, outcome.entries, outcome.at_once,
                  outcome.prompt, outcome.values, outcome.model, outcome.roles);
}

template <typename Value>
concept HasFields = requires(Value value) {
  fields_of(value);
};
template <typename... Fields>
std::tuple<Fields...> values_of(const std::tuple<Fields&...>&);
}  // namespace

template <HasFields Value>
void to_json(json& list, Value value) {
  list = std::apply([](auto&... field) { return json{json(field)...}; }, fields_of(value));
}

template <HasFields Value>
void from_json(const json& list, Value& value) {
  fields_of(value) = list.get<decltype(values_of(fields_of(value)))>();
}

namespace {
template <typename Value>
std::string written(const Value& value) {
  std::string bytes;
  json::to_cbor(value, bytes);
  return bytes;
}

template <typename Value>
Value read_from(const std::string& bytes) try {
  return json::from_cbor(bytes).get<Value>();
} catch (const json::exception&) {
  throw WorkError("study: a message between processes is cut; start the study again");
}
}  // namespace

std::string to_bytes(const StudyTask& task) { return written(task); }
std::string to_bytes(const StudyOutcome& outcome) { return written(outcome); }
StudyTask task_of(const std::string& bytes) { return read_from<StudyTask>(bytes); }
StudyOutcome outcome_of(const std::string& bytes) { return read_from<StudyOutcome>(bytes); }

}  // namespace kvloupe
