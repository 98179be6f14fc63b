// Traces, replays, measures and sweeps for other programs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/blas.h"
#include "analysis/engine/calls.h"
#include "analysis/policy/kit/allowed_python.h"
#include "analysis/replay/follow_json.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure/shared_measures.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/record/head_states.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/replay_json.h"
#include "analysis/replay/sweep.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/trace.h"

namespace kvloupe::engine {

/// A trace and, if it is small, the states and measures read from it: for a short trace, reading
/// its states takes as long as a replay. Any number of threads may use it.
class OpenTrace {
 public:
  explicit OpenTrace(const char* path) : trace(path), states_(kMostKept), kept_(is_small()) {}

  const Trace trace;
  /// States already read; null for a large trace, where each call takes its own memory.
  LayerStatesCache* states() const { return kept_ ? &states_ : nullptr; }
  /// The values measured so far with this choice of measures; null as above.
  std::shared_ptr<SharedMeasures> shared(const std::vector<std::string>& measures) const {
    if (!kept_) return nullptr;
    const std::lock_guard lock(mutex_);
    if (!shared_ || measures != measures_) {
      shared_ = std::make_shared<SharedMeasures>(kMostKept / 4);
      measures_ = measures;
    }
    return shared_;
  }

 private:
  static constexpr std::size_t kMostKept = std::size_t{64} << 20U;
  bool is_small() const {
    return layer_bytes(trace, StateParts()) * static_cast<std::size_t>(trace.model().num_layers) <=
           kMostKept;
  }

  mutable LayerStatesCache states_;
  const bool kept_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<SharedMeasures> shared_;
  mutable std::vector<std::string> measures_;
};

/// A replay reads its trace again when a measure is asked for.
using SharedTrace = std::shared_ptr<const OpenTrace>;

namespace {
std::optional<Compression> compression_of(int32_t word) {
  if (word == KVLOUPE_ENGINE_AS_CAPTURED) return std::nullopt;
  if (word == KVLOUPE_ENGINE_REGULAR) return Compression::regular;
  if (word == KVLOUPE_ENGINE_CONTEXT_ONLY) return Compression::context_only;
  throw UsageError("compression " + std::to_string(word) + ": give one of kvloupe_engine.h");
}

std::vector<std::string> measures_of(int32_t count, const char* const* names) {
  constexpr int32_t kMost = 10000;
  if (count < 0 || count > kMost) {
    throw UsageError("measure_count " + std::to_string(count) + ": give 0 to " +
                     std::to_string(kMost));
  }
  std::vector<std::string> measures;
  for (int32_t i = 0; i < count; ++i) {
    require(names, "measures");
    require(names[i], "measures");
    if (names[i] != std::string_view("all")) require_measure(names[i]);
    measures.emplace_back(names[i]);
  }
  return measures;
}

/// The caller is the program: whom it names, it trusts.
void allow_python_in(const char* specs) {
  require(specs, "policy");
  for (const std::string& file : python_files_in(specs)) allow_python(file);
}

/// The caller's, or one of the call's own.
class Work {
 public:
  explicit Work(kvloupe_engine_work* given) : given_(given) {}
  Progress& progress() { return given_ != nullptr ? given_->progress : own_; }

 private:
  kvloupe_engine_work* given_;
  Progress own_;
};

ReplayRequest request_of(const Trace& trace, const kvloupe_engine_replay_request* request) {
  require(request, "request");
  require_size(request->size, sizeof *request, "kvloupe_engine_replay_request");
  allow_python_in(request->policy);
  require(request->budget, "budget");
  ReplayRequest wanted;
  wanted.policy = parse_policy(request->policy);
  wanted.budget = budget_entries(parse_budget(request->budget), trace, wanted.policy);
  if (request->block < -1) {
    throw UsageError("block " + std::to_string(request->block) + ": must be at least 1");
  }
  wanted.block = request->block == -1 ? kWholePrompt : request->block;
  wanted.compression = compression_of(request->compression);
  return wanted;
}
}  // namespace

}  // namespace kvloupe::engine

struct kvloupe_engine_trace {
  kvloupe::engine::SharedTrace trace;
};

struct kvloupe_engine_replay {
  kvloupe::engine::SharedTrace trace;
  kvloupe::Replay replay;
  bool measured = false;
  std::vector<std::string> measures;  // beyond the cheap ones; with `measured`
  std::string json;
};

struct kvloupe_engine_sweep {
  kvloupe::SweepTable table;
  std::vector<const char*> names;
  std::vector<double> values;
  std::vector<int32_t> numbers;
  std::vector<const char*> texts;
};

namespace kvloupe::engine {

namespace {
/// Whether the replay itself has the values of the measure.
bool has_measure(const kvloupe_engine_replay& replay, const Measure& measure) {
  if (measure.slot < 0) return true;  // a field of the record
  if (!replay.measured) return false;
  return !measure.family->on_request ||
         std::any_of(replay.measures.begin(), replay.measures.end(), [&](const std::string& name) {
           return name == "all" || name == measure.info->name;
         });
}

void fill_measure(const kvloupe_engine_replay& own, const char* name, bool per_step,
                  std::span<double> values, Progress& progress) {
  const Measure& measure = require_measure(name);
  const MeasureScope scope = measure.family->scope;
  const bool of_steps = scope == MeasureScope::query_head || scope == MeasureScope::step;
  if (per_step && !of_steps) {
    throw UsageError("measure " + measure.info->name +
                     ": has no value for each step; ask for one number per head");
  }
  const std::size_t steps = per_step ? own.replay.blocks.size() : 1;
  if (values.size() < own.replay.heads.size() * steps) {
    throw UsageError("values: has room for " + std::to_string(values.size()) +
                     " numbers; give room for " + std::to_string(own.replay.heads.size() * steps));
  }
  Replay made;
  const Replay* from = &own.replay;
  if (!has_measure(own, measure)) {
    MeasureRequest request{
        .measures = {measure.info->name}, .summary = !per_step, .states = own.trace->states()};
    made = measure_replay(own.trace->trace, own.replay, request, progress);
    from = &made;
  }
  std::size_t at = 0;
  for (const HeadReplay& head : from->heads) {
    if (!per_step) values[at++] = measure_of(measure, head);
    for (std::size_t step = 0; per_step && step < steps; ++step) {
      values[at++] = measure_at(measure, head.steps[step]);
    }
  }
}

SweepRequest settings_of(const kvloupe_engine_sweep_request& request) {
  allow_python_in(request.policies);
  require(request.budgets, "budgets");
  SweepRequest wanted{
      .policies = parse_policy_list(request.policies),
      .budgets = parse_budgets(request.budgets),
      .blocks = request.blocks == nullptr ? std::vector<int>{0} : parse_blocks(request.blocks),
      .compression = compression_of(request.compression)};
  return wanted;
}

void fill_columns(kvloupe_engine_sweep& sweep) {
  for (const Measure& measure : all_measures()) sweep.names.push_back(measure.info->name.c_str());
  for (const SweepRow& row : sweep.table.rows()) {
    for (const double value : row.values) {
      sweep.values.push_back(std::isfinite(value) ? value
                                                  : std::numeric_limits<double>::quiet_NaN());
    }
    for (const int number : {row.budget, row.block, row.layer, row.head}) {
      sweep.numbers.push_back(number);
    }
    for (const char* text : {row.trace.c_str(), row.identity.c_str(), row.policy.c_str(),
                             compression_name(row.compression), row.question.c_str(),
                             row.prompt_compressed.c_str(), row.budget_counts.c_str()}) {
      sweep.texts.push_back(text);
    }
  }
}
}  // namespace

}  // namespace kvloupe::engine

using namespace kvloupe;          // NOLINT: the functions below have no namespace of their own
using namespace kvloupe::engine;  // NOLINT

int32_t kvloupe_engine_trace_open(const char* path, kvloupe_engine_trace** trace, char* error) {
  return created(trace, "trace", error, [&] {
    require(path, "path");
    return std::unique_ptr<kvloupe_engine_trace>(
        new kvloupe_engine_trace{std::make_shared<const OpenTrace>(path)});
  });
}

void kvloupe_engine_trace_close(kvloupe_engine_trace* trace) { delete trace; }

int32_t kvloupe_engine_replay_create(const kvloupe_engine_trace* trace,
                                     const kvloupe_engine_replay_request* request,
                                     kvloupe_engine_replay** made, char* error) {
  return created(made, "replay", error, [&] {
    require(trace, "trace");
    const Trace& own = trace->trace->trace;
    ReplayRequest wanted = request_of(own, request);
    if (request->layers != nullptr) {
      wanted.layers = parse_index_list(request->layers, "layer", own.model().num_layers);
    }
    wanted.metrics = request->measured != 0;
    wanted.measures = measures_of(request->measure_count, request->measures);
    if (!wanted.metrics && !wanted.measures.empty()) {
      throw UsageError("measures: are named, but nothing is to be measured; set `measured`");
    }
    Work work(request->work);
    const OneBlasThread one_thread;
    auto result = std::make_unique<kvloupe_engine_replay>();
    result->trace = trace->trace;
    wanted.states = trace->trace->states();
    result->replay = replay(own, wanted, work.progress());
    result->measured = wanted.metrics;
    result->measures = std::move(wanted.measures);
    return result;
  });
}

void kvloupe_engine_replay_destroy(kvloupe_engine_replay* replay) { delete replay; }

void kvloupe_engine_replay_describe(const kvloupe_engine_replay* replay,
                                    kvloupe_engine_replay_facts* facts) {
  const Replay& own = replay->replay;
  *facts = {own.policy.c_str(),
            own.budget,
            own.block,
            static_cast<int32_t>(own.heads.size()),
            static_cast<int32_t>(own.blocks.size()),
            replay->trace->trace.length()};
}

void kvloupe_engine_replay_sets(const kvloupe_engine_replay* replay, int32_t* layer_head,
                                int32_t* ends, int32_t* evicted_at) {
  for (const HeadReplay& head : replay->replay.heads) {
    if (layer_head != nullptr) {
      *layer_head++ = head.layer;
      *layer_head++ = head.head;
    }
    if (evicted_at != nullptr) {
      evicted_at = std::copy(head.evicted_at.begin(), head.evicted_at.end(), evicted_at);
    }
  }
  if (ends == nullptr) return;
  for (const Block& block : replay->replay.blocks) *ends++ = block.end;
}

int32_t kvloupe_engine_replay_retained(const kvloupe_engine_replay* replay, int32_t head,
                                       int32_t step, int32_t* tokens, int32_t room, int32_t* count,
                                       char* error) {
  return guarded(error, [&] {
    require(replay, "replay");
    require(count, "count");
    const Replay& own = replay->replay;
    if (head < 0 || head >= std::ssize(own.heads)) {
      throw UsageError("head " + std::to_string(head) + ": the replay has heads 0 to " +
                       std::to_string(std::ssize(own.heads) - 1));
    }
    if (step < 0 || step >= std::ssize(own.blocks)) {
      throw UsageError("step " + std::to_string(step) + ": the replay has steps 0 to " +
                       std::to_string(std::ssize(own.blocks) - 1));
    }
    const std::vector<std::int32_t> kept =
        own.retained_at(own.heads[static_cast<std::size_t>(head)], step);
    *count = static_cast<int32_t>(kept.size());
    if (tokens == nullptr) return;
    if (room < *count) {
      throw UsageError("tokens: has room for " + std::to_string(room) + "; give room for " +
                       std::to_string(*count));
    }
    std::copy(kept.begin(), kept.end(), tokens);
  });
}

int32_t kvloupe_engine_replay_measure(kvloupe_engine_replay* replay, const char* name,
                                      int32_t per_step, double* values, int64_t room,
                                      kvloupe_engine_work* work, char* error) {
  return guarded(error, [&] {
    require(replay, "replay");
    require(name, "measure");
    require(values, "values");
    Work own(work);
    const OneBlasThread one_thread;
    fill_measure(*replay, name, per_step != 0,
                 {values, static_cast<std::size_t>(std::max<int64_t>(room, 0))}, own.progress());
  });
}

int32_t kvloupe_engine_replay_json(kvloupe_engine_replay* replay, const char* heads, int32_t last,
                                   const char** text, int64_t* bytes, char* error) {
  return guarded(error, [&] {
    require(replay, "replay");
    require(text, "text");
    require(bytes, "bytes");
    ReplayJsonOptions shown;
    if (heads != nullptr) {
      shown.heads = parse_index_list(heads, "head", replay->trace->trace.most_heads());
    }
    shown.last_step_only = last != 0;
    shown.bytes = held_bytes(replay->trace->trace, replay->replay);
    std::string json;
    write_replay_json(replay->replay, replay->trace->trace.path().string(), shown,
                      [&](std::string_view piece) { json += piece; });
    replay->json = std::move(json);
    *text = replay->json.c_str();
    *bytes = std::ssize(replay->json);
  });
}

const char* kvloupe_engine_text_data(const kvloupe_engine_text* text, int64_t* bytes) {
  if (bytes != nullptr) *bytes = std::ssize(text->text);
  return text->text.c_str();
}

void kvloupe_engine_text_destroy(kvloupe_engine_text* text) { delete text; }

int32_t kvloupe_engine_follow(const kvloupe_engine_trace* trace,
                              const kvloupe_engine_replay_request* request, const char* tokens,
                              const char* segment, kvloupe_engine_text** made, char* error) {
  return created(made, "text", error, [&] {
    require(trace, "trace");
    const Trace& own = trace->trace->trace;
    const ReplayRequest wanted = request_of(own, request);
    const std::vector<int> followed =
        followed_tokens(own, tokens == nullptr ? "" : tokens, segment == nullptr ? "" : segment);
    Work work(request->work);
    const OneBlasThread one_thread;
    const FollowedReplay result = follow_tokens(own, wanted, followed, work.progress());
    return std::unique_ptr<kvloupe_engine_text>(new kvloupe_engine_text{
        follow_json(own, own.path().string(), result.replay, followed, result.heads)});
  });
}

int32_t kvloupe_engine_sweep_create(const kvloupe_engine_trace* trace,
                                    const kvloupe_engine_sweep_request* request,
                                    kvloupe_engine_sweep** made, char* error) {
  return created(made, "sweep", error, [&] {
    require(trace, "trace");
    require(request, "request");
    require_size(request->size, sizeof *request, "kvloupe_engine_sweep_request");
    const Trace& own = trace->trace->trace;
    std::vector<std::string> measures = measures_of(request->measure_count, request->measures);
    const std::vector<SweepSetting> settings = sweep_settings(own, settings_of(*request));
    if (request->default_measures != 0) measures = usual_measures(own);
    auto sweep = std::make_unique<kvloupe_engine_sweep>();
    Work work(request->work);
    const OneBlasThread one_thread;
    const std::shared_ptr<SharedMeasures> known = trace->trace->shared(measures);
    std::optional<SweepShared> shared;
    if (known) shared.emplace(SweepShared{*trace->trace->states(), *known});
    run_sweep(own, settings, "", sweep->table, work.progress(), {}, measures,
              shared ? &*shared : nullptr);
    fill_columns(*sweep);
    return sweep;
  });
}

void kvloupe_engine_sweep_destroy(kvloupe_engine_sweep* sweep) { delete sweep; }

void kvloupe_engine_sweep_describe(const kvloupe_engine_sweep* sweep,
                                   kvloupe_engine_sweep_facts* facts) {
  *facts = {std::ssize(sweep->table.rows()),
            static_cast<int32_t>(sweep->names.size()),
            sweep->names.data(),
            sweep->values.data(),
            sweep->numbers.data(),
            sweep->texts.data()};
}
