#include "capture/run/capture.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/segments.h"
#include "analysis/trace/trace_writer.h"
#include "capture/model/load_transformer.h"
#include "capture/run/block_runner.h"
#include "capture/run/cache_policy.h"
#include "capture/run/capture_input.h"
#include "capture/run/compute.h"
#include "capture/run/layer_writer.h"
#include "capture/run/model_description.h"
#include "capture/run/model_weights.h"
#include "capture/run/predictions.h"
#include "capture/run/probe.h"
#include "capture/run/run_rates.h"
#include "capture/run/token_facts.h"
#include "capture/run/trace_plan.h"

namespace kvloupe {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A tensor as the writer takes it, and its numbers.
at::Tensor host_floats(const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); }
std::span<const float> numbers(const at::Tensor& of) {
  return {of.data_ptr<float>(), static_cast<std::size_t>(of.numel())};
}

/// Everything about a run that is known before the model is loaded.
struct Preparation {
  ModelConfig config;
  CaptureInput input;
  ModelInfo info;
  at::Device device = at::kCPU;
  at::ScalarType type = at::kFloat;
  RunInfo run;
  int forced = 0;
  int acts_until = 0;
  std::optional<ProbeInfo> probe;
  TracePlan plan;
  std::string fingerprint;
  std::string rate;  // its key
};

/// `writes`: the run is written to a trace.
BlockRunner::Options runner_options(const CaptureRequest& request, const Preparation& made,
                                    bool writes) {
  const RunInfo& run = made.run;
  BlockRunner::Options options;
  options.most_tokens = run.tokens();
  // Tokens that may never be generated take no memory: a cache grows.
  constexpr int kRoomToGenerate = 1024;
  options.capacity = std::min(run.tokens(), run.prompt_length + made.forced + kRoomToGenerate);
  if (request.policy) {
    options.capacity = static_cast<int>(std::min<std::int64_t>(
        run.tokens(), std::int64_t{run.budget} + std::min(request.block, run.tokens())));
  }
  options.storage = request.storage;
  options.keep_rows = writes && made.plan.options.store_attention;
  options.positions = request.positions;
  return options;
}

void write_cuts(const CachePolicy& policy, int layers, TraceWriter& writer) {
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<std::int32_t> all;
    for (const std::vector<std::int32_t>& head : policy.evicted_at(layer)) {
      all.insert(all.end(), head.begin(), head.end());
    }
    writer.write_evicted_at(layer, all);
    if (!policy.merges(layer).empty()) writer.write_merges(layer, policy.merges(layer));
  }
}

/// One run in the making: the sequence as it grows and everything it is written to.
class Run {
 public:
  /// `tokens`: the prompt and what is given after it. Without a writer only the model's choices
  /// after the prompt are computed.
  Run(const Transformer& model, const CaptureRequest& request, const Preparation& made,
      TokenSequence tokens, TraceWriter* writer, Progress& progress, CaptureObserver& observer)
      : model_(model),
        request_(request),
        made_(made),
        runner_(model, runner_options(request, made, writer != nullptr)),
        changes_(made.info.num_layers),
        writer_(writer),
        progress_(progress),
        observer_(observer),
        tokens_(std::move(tokens)),
        prompt_length_(made.input.prompt_length) {
    if (made.probe) {
      probe_.emplace(model, made.info, *made.probe, request.storage);
      twice_.emplace(*probe_, &progress);
    }
    if (request.policy) {
      if (made.input.tokenizer) structure_.emplace(tokens_, *made.input.tokenizer);
      policy_.emplace(model, made.info,
                      ClosedLoop{*request.policy, made.run.budget, request.positions,
                                 twice_ ? &*twice_ : nullptr, prompt_length_,
                                 structure_ ? &structure_->flags() : nullptr},
                      request.storage);
    }
    if (writer == nullptr) return;
    layers_.emplace(model, request.storage, policy_.has_value(), *writer);
    for (int layer = 0; !made.plan.weights && layer < made.info.num_layers; ++layer) {
      progress.check();
      layers_->write_output_weight(layer);
    }
  }

  /// Seconds that the two parts of a run took.
  struct Times {
    double prompt = 0.0, after = 0.0;
  };
  /// Runs the prompt in blocks, then the given tokens, then up to `generate` of the model's own.
  Times run(int generate) {
    const int known = length();
    const auto is_last = [&](int end) { return generate == 0 && end == known; };
    const int border = made_.acts_until < prompt_length_ ? made_.acts_until : 0;
    const auto start = std::chrono::steady_clock::now();
    std::int32_t choice = 0;
    for (const Block& block : make_blocks(prompt_length_, 0, request_.block, border)) {
      choice = step(block.end, is_last(block.end));
    }
    const double prompt = seconds_since(start);
    for (int end = prompt_length_ + 1; end <= known; ++end) {
      as_chosen_ = as_chosen_ && choice == tokens_.ids[static_cast<std::size_t>(end) - 1];
      choice = step(end, is_last(end));
    }
    for (int chosen = 1; chosen <= generate; ++chosen) {
      const bool last = ends_text(choice, made_.config, made_.input.tokenizer.get());
      append(choice, last);
      if (structure_) structure_->extend(tokens_);
      choice = step(length(), last || chosen == generate);
      if (last) break;
    }
    return {prompt, seconds_since(start) - prompt};
  }

  /// Runs the tokens up to `end` as one step; `last`: none will follow. Returns the model's choice
  /// for the next token.
  std::int32_t step(int end, bool last) {
    const int first = runner_.length();
    const std::span<const std::int32_t> ids = tokens_.ids;
    const bool probes = probe_ && !probed_ && end >= probe_->info()->context_end;
    std::vector<StateTensors> held;  // of a step after which the probe runs before the policy acts
    const at::Tensor hidden = runner_.run(
        ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)),
        [&](const LayerStep& at_layer) {
          if (layers_) layers_->write(at_layer);
          if (!policy_) return;
          if (probes) {
            held.push_back(at_layer.states);
          } else {
            policy_->cut(at_layer, last, end <= made_.acts_until);
          }
        },
        progress_,
        [&](int layer, const at::Tensor& left) {
          const std::vector<float> changes = changes_.add(layer, left);
          if (writer_) writer_->write_residual_change(layer, first, end - first, changes);
          if (policy_ && policy_->reads_residual()) policy_->add_changes(layer, changes);
        });
    if (probes) {
      run_probe();
      const BlockAttention none;
      for (int layer = 0; layer < static_cast<int>(held.size()); ++layer) {
        policy_->cut({static_cast<int>(blocks_.size()),
                      layer,
                      {first, end},
                      held[static_cast<std::size_t>(layer)],
                      none,
                      runner_.cache(layer)},
                     last, end <= made_.acts_until);
      }
    }
    if (policy_) policy_->end_pass();
    blocks_.push_back({first, end});
    if (writer_ == nullptr && end < prompt_length_) return 0;
    const int k =
        static_cast<int>(std::min<std::int64_t>(kTopPredictions, model_.config().vocab_size));
    const Predictions predictions =
        predict(model_, hidden, first, k, ids.subspan(static_cast<std::size_t>(first) + 1));
    const std::size_t best = predictions.ids.size() - static_cast<std::size_t>(k);
    choice_loss_ = -predictions.logprobs[best];
    if (writer_ == nullptr) return predictions.ids[best];
    writer_->write_predictions(first, end - first, predictions.ids, predictions.logprobs);
    const at::Tensor normed = host_floats(model_.last_norm(hidden)[0]);
    writer_->write_final_hidden(first, end - first, numbers(normed));
    if (model_.config().has_plain_residual()) {
      writer_->write_final_rms(first, end - first, final_rms(hidden));
    }
    loss_.insert(loss_.end(), predictions.loss.begin(), predictions.loss.end());
    observer_.on_tokens(end, prompt_length_, made_.run.tokens());
    return predictions.ids[best];
  }

  /// The last norm divides each token's residual stream by this: √(mean(x²) + ε) of hidden [1,m,D].
  std::vector<float> final_rms(const at::Tensor& hidden) const {
    const at::Tensor x = hidden[0].to(at::kFloat);
    const at::Tensor rms = (x.square().mean(-1) + model_.config().rms_norm_eps).sqrt();
    const at::Tensor own = rms.to(at::kCPU).contiguous();
    return {own.data_ptr<float>(), own.data_ptr<float>() + own.numel()};
  }

  /// Appends the model's own choice, whose loss was not known before.
  void append(std::int32_t id, bool special) {
    tokens_.add(id, special ? "special" : "answer");
    loss_.push_back(choice_loss_);
  }

  /// After the last step: what the layers and the policy leave to write.
  void finish() {
    layers_->finish();
    if (policy_) write_cuts(*policy_, made_.info.num_layers, *writer_);
  }

  /// Whether the model would have chosen every token that it was given.
  bool as_chosen() const { return as_chosen_; }
  int length() const { return static_cast<int>(tokens_.ids.size()); }
  const TokenSequence& tokens() const { return tokens_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  /// [T], NaN at the last.
  std::vector<float> losses() const {
    std::vector<float> all = loss_;
    all.resize(tokens_.ids.size(), std::numeric_limits<float>::quiet_NaN());
    return all;
  }

 private:
  /// Reads the context again, while the caches hold all of it.
  void run_probe() {
    probed_ = true;
    const ProbeInfo& probe = *probe_->info();
    if (writer_) {
      observer_.on_note(fmt::format(
          "probe: the model reads the {} tokens of the context a second time ({} tokens, {})",
          probe.context_end, probe.tokens(), probe.kind));
      writer_->write_probe(probe);
    }
    if (policy_) {
      for (int layer = 0; layer < static_cast<int>(model_.config().num_layers); ++layer) {
        probe_->take_context(layer, runner_.cache(layer));
      }
    }
    kvloupe::run_probe(runner_, probe, progress_, [&](const ProbeStates& states) {
      if (writer_) write_probe(states);
      if (policy_) probe_->take(states);
    });
  }
  void write_probe(const ProbeStates& of) {
    const at::Tensor query = host_floats(as_stored(of.states.query[0], request_.storage));
    const at::Tensor key = host_floats(as_stored(of.states.key[0], request_.storage));
    const at::Tensor norm = host_floats(of.input_norm);
    writer_->write_probe_states(of.layer, of.first, static_cast<int>(norm.numel()), numbers(query),
                                numbers(key), numbers(norm));
  }

  const Transformer& model_;
  const CaptureRequest& request_;
  const Preparation& made_;
  BlockRunner runner_;
  ResidualChanges changes_;
  TraceWriter* writer_;
  Progress& progress_;
  CaptureObserver& observer_;
  TokenSequence tokens_;
  int prompt_length_;
  std::optional<ModelProbe> probe_;  // a second reading of the context
  std::optional<SequenceTables> twice_;
  std::optional<StructuralSequence> structure_;
  std::optional<CachePolicy> policy_;  // none: the full cache
  std::optional<LayerWriter> layers_;
  bool probed_ = false;
  std::vector<Block> blocks_;
  std::vector<float> loss_;
  float choice_loss_ = 0.0F;
  bool as_chosen_ = true;
};

/// The ids that the model writes after the prompt, at most as many as it was given there; these
/// where it would have chosen each (`as_chosen`).
std::vector<std::int32_t> own_answer(bool as_chosen, const Transformer& model,
                                     const CaptureRequest& request, const Preparation& made,
                                     Progress& progress, CaptureObserver& observer) {
  const auto after = [&](const std::vector<std::int32_t>& ids) {
    auto end = std::find_if(ids.begin() + made.input.prompt_length, ids.end(), [&](auto id) {
      return ends_text(id, made.config, made.input.tokenizer.get());
    });
    return std::vector(ids.begin() + made.input.prompt_length, end == ids.end() ? end : end + 1);
  };
  if (as_chosen) return after(made.input.tokens.ids);
  observer.on_note("the model reads the prompt once more and writes its own answer");
  TokenSequence prompt = made.input.tokens;
  prompt.ids.resize(static_cast<std::size_t>(made.input.prompt_length));
  prompt.segment.resize(prompt.ids.size());
  Run alone(model, request, made, std::move(prompt), nullptr, progress, observer);
  alone.run(made.forced);
  return after(alone.tokens().ids);
}

/// The probe that the request or its policy asks for. Throws UsageError where a policy would evict
/// a part of the context before it is read again.
std::optional<ProbeInfo> probe_of(const CaptureRequest& request, const CaptureInput& input,
                                  int context_end, const ModelConfig& config) {
  const bool needed = request.policy && has_trait(*request.policy, &PolicyTraits::reads_probe);
  if (!request.probe && !needed) return std::nullopt;
  if (request.policy && request.block < context_end) {
    throw UsageError(fmt::format(
        "{}: the model reads its context of {} tokens a second time before the policy evicts; run "
        "the context as one block: --block all",
        needed ? "--policy " + request.policy->text() : "--probe", context_end));
  }
  ProbeInfo probe =
      make_probe(request.probe.value_or(ProbeKind::repeat),
                 std::span(input.tokens.ids).first(static_cast<std::size_t>(context_end)),
                 input.tokenizer.get());
  check_vocabulary(probe.ids, config, request.model.path);
  return probe;
}

void write_lm_head(const Transformer& model, TraceWriter& writer) {
  const at::Tensor wide = host_floats(model.head_weight());
  writer.write_lm_head(numbers(wide));
}

/// The rows of the output head that belong to a sequence of these ids.
void write_lm_head_rows(const Transformer& model, std::vector<std::int32_t> ids,
                        TraceWriter& writer) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const at::Tensor index =
      at::from_blob(ids.data(), {static_cast<std::int64_t>(ids.size())}, at::kInt).to(at::kLong);
  const at::Tensor wide = host_floats(model.head_rows(index));
  writer.write_lm_head_rows(ids, numbers(wide));
}

TokenTable token_table(const TokenSequence& tokens, const Tokenizer* tokenizer) {
  TokenTable table{.ids = tokens.ids, .segment = tokens.segment, .segment_names = tokens.names};
  if (tokenizer == nullptr) return table;
  for (const std::int32_t id : tokens.ids) table.text.push_back(tokenizer->piece_bytes(id));
  return table;
}

void write_vocabulary(const Tokenizer& tokenizer, const ModelInfo& model, TraceWriter& writer) {
  std::vector<std::string> texts(static_cast<std::size_t>(model.vocab_size));
  const std::int32_t known = std::min(tokenizer.size(), static_cast<std::int32_t>(texts.size()));
  for (std::int32_t id = 0; id < known; ++id) {
    texts[static_cast<std::size_t>(id)] = tokenizer.piece_bytes(id);
  }
  writer.write_vocabulary(texts);
}

Preparation prepare(const CaptureRequest& request, Progress& progress, CaptureObserver& observer) {
  Preparation made;
  made.config = read_model_config(request.model.path);
  made.input = read_capture_input(request, made.config);
  const CaptureInput& input = made.input;
  for (const std::string& note : input.notes) observer.on_note(note);
  made.info = describe_model(made.config, request.model.path);

  made.device = parse_device(request.device);
  made.type = parse_compute_type(request.dtype, made.device);
  RunInfo& run = made.run;
  run.threads = use_threads(request.threads, made.device, made.type);
  if (made.device.is_cpu()) {
    if (const auto warning = slow_product_warning()) observer.on_note(*warning);
  }
  run.block_size = request.block == kWholePrompt ? input.prompt_length : request.block;
  run.prompt_length = input.prompt_length;
  made.forced = static_cast<int>(input.tokens.ids.size()) - input.prompt_length;
  if (request.own_answer && made.forced == 0) {
    throw UsageError(
        "--own-answer: no token is given after the prompt, so the answer is the model's own in any "
        "case; leave the option out");
  }
  run.generated = made.forced + request.generate;  // at most
  if (request.policy) {
    check_closed_loop(*request.policy, true, input.tokenizer != nullptr);
    check_positions(made.config, request.positions, run.tokens());
    run.policy = request.policy->text();
    run.budget =
        budget_entries(request.budget, *request.policy, layer_models(made.info, made.config),
                       run.prompt_length, run.tokens());
    run.compression = request.compression;
    run.positions = request.positions == Positions::compact ? "compact" : "original";
    const bool regular = request.compression == Compression::regular;
    check_run(*request.policy, {run.prompt_length, regular ? run.generated : 0, run.budget});
    for (const std::string& note :
         policy_notes(*request.policy, made.info, run.budget, run.tokens())) {
      observer.on_note(note);
    }
  }
  const TokenTable segments = token_table(input.tokens, nullptr);
  made.acts_until = compression_end(segments, run, run.compression);
  made.probe = probe_of(request, input, question_begin(segments, run), made.config);
  run.dtype = compute_type_name(made.type);
  run.device = made.device.str();
  made.fingerprint = model_fingerprint(request.model.path, progress);
  if (const std::string note = other_model_note(request.tokens_of, made.fingerprint); !note.empty())
    observer.on_note(note);
  WeightsPlace weights;
  if (request.shared_weights) {
    weights = weights_place(made.info, made.fingerprint, run.dtype, request.storage);
    if (!weights) {
      observer.on_note(
          "the trace will hold the model's weights itself: the cache folder cannot be written to, "
          "or the model has no fingerprint");
    }
  }
  made.plan = plan_trace(request, made.config, made.info, run, input.tokens.ids,
                         input.tokenizer.get(), made.probe ? made.probe->tokens() : 0, weights);
  made.rate = rate_key(made.fingerprint, run);
  return made;
}

CaptureForecast forecast_of(const CaptureRequest& request, const Preparation& made) {
  CaptureForecast forecast;
  forecast.size = made.plan.size;
  forecast.size_text =
      size_text(made.plan.size, made.run, made.plan.options.store_f32, request.generate > 0);
  forecast.free = request.free_space(request.target.parent_path());
  forecast.dtype = made.run.dtype;
  forecast.storage = request.storage;
  forecast.prompt_length = made.run.prompt_length;
  forecast.generated = made.run.generated;
  const auto rate = remembered_rate(made.rate);
  auto time = foreseen_time(rate, made.config, made.run);
  // The same number of tokens once more, at most, and without a trace.
  if (time && request.own_answer) time->seconds += time->seconds - rate->beside;
  if (time && !time->at_least) forecast.seconds = time->seconds;
  forecast.time_text = foreseen_text(time);
  return forecast;
}

}  // namespace

CaptureForecast forecast_capture(const CaptureRequest& request, Progress& progress,
                                 CaptureObserver& observer) {
  const c10::InferenceMode no_gradients;
  return forecast_of(request, prepare(request, progress, observer));
}

CaptureSummary run_capture(const CaptureRequest& request, Progress& progress,
                           CaptureObserver& observer, const Transformer* loaded) {
  const auto start = std::chrono::steady_clock::now();
  const c10::InferenceMode no_gradients;
  const Preparation made = prepare(request, progress, observer);
  const ModelConfig& config = made.config;
  const CaptureInput& input = made.input;
  const ModelInfo& info = made.info;
  const TracePlan& plan = made.plan;
  RunInfo run = made.run;
  check_space(request, plan);
  TraceWriterOptions options = plan.options;
  options.fingerprint = made.fingerprint;
  const Tokenizer* tokenizer = made.input.tokenizer.get();
  options.chat = tokenizer != nullptr && tokenizer->chat ? tokenizer->chat->facts : request.chat;

  // Opened before the weights are read: a target that cannot be written is found at once.
  TraceWriter writer(request.target, info, run, options);
  progress.check();
  std::optional<Transformer> own;
  if (loaded == nullptr) {
    own.emplace(load_transformer(request.model.path, config, made.type, made.device,
                                 request.model.weights));
  }
  const Transformer& model = own ? *own : *loaded;
  // Only now, so that a broken model is told by one line alone.
  const CaptureForecast forecast = forecast_of(request, made);
  observer.on_size(
      plan.size, fmt::format("{}; computed in {}; {}", forecast.size_text,
                             why_compute_type(request.dtype, forecast.dtype), forecast.time_text));
  run.attention_scale = model.attention_scale();
  progress.check();

  if (plan.weights) {
    keep_weights(model, info, made.fingerprint, plan.weights, request.storage,
                 options.half_output_weight, progress);
  }
  const FileUse weights_use = plan.weights ? FileUse(plan.weights.file) : FileUse();
  if (plan.weights && !plan.weights.there)
    CacheFolder(cache_folder()).keep_below(cache_limit(), {plan.weights.file, request.target});

  if (plan.contents.lm_head) write_lm_head(model, writer);
  if (config.has_plain_residual()) {
    const at::Tensor last_norm = host_floats(model.last_norm_weight());
    writer.write_final_norm(numbers(last_norm));
  }
  if (input.tokenizer) write_vocabulary(*input.tokenizer, info, writer);
  std::optional<Run> at_work(std::in_place, model, request, made, input.tokens, &writer, progress,
                             observer);
  CaptureSummary summary;
  const auto run_start = std::chrono::steady_clock::now();
  const Run::Times times = at_work->run(request.generate);
  summary.prompt_seconds = times.prompt;
  summary.generate_seconds = times.after;
  run.generated = at_work->length() - run.prompt_length;
  run.seconds = seconds_since(run_start);
  at_work->finish();
  const TokenSequence tokens = at_work->tokens();
  const std::vector<Block> blocks = at_work->blocks();
  const std::vector<float> losses = at_work->losses();
  const bool as_chosen = at_work->as_chosen();
  at_work.reset();  // makes room for the second run
  if (plan.contents.lm_head_rows > 0) {
    write_lm_head_rows(model, tokens.ids, writer);
  }
  const auto answer_start = std::chrono::steady_clock::now();
  std::vector<std::int32_t> answer;
  if (request.own_answer) answer = own_answer(as_chosen, model, request, made, progress, observer);
  const double answer_seconds = seconds_since(answer_start);
  writer.write_given(made.forced, answer);
  writer.finish(run, token_table(tokens, input.tokenizer.get()), blocks, losses);
  for (const std::string& note : writer.notes()) observer.on_note(note);

  summary.fingerprint = options.fingerprint;
  summary.prompt_length = run.prompt_length;
  summary.generated = run.generated;
  summary.given = made.forced;
  if (input.tokenizer) {
    // The continuation as it reads after the prompt: a piece's leading space belongs to it.
    const std::vector<std::int32_t> prompt(tokens.ids.begin(),
                                           tokens.ids.begin() + run.prompt_length);
    const std::string before = input.tokenizer->decode(prompt);
    const auto text = [&](const std::vector<std::int32_t>& ids) {
      const std::string whole = input.tokenizer->decode(ids);
      return whole.substr(std::min(before.size(), whole.size()));
    };
    summary.generated_text = text(tokens.ids);
    answer.insert(answer.begin(), prompt.begin(), prompt.end());
    summary.own_answer = text(answer);
  }
  summary.seconds = seconds_since(start);
  // A model that was loaded for another run says nothing of the next one's time, nor does a prompt
  // that takes hardly any.
  constexpr double kLeastSeconds = 0.05;
  if (loaded == nullptr && !made.fingerprint.empty() && summary.prompt_seconds > kLeastSeconds) {
    remember_rate(made.rate,
                  {prompt_work(config, made.run) / summary.prompt_seconds,
                   run.generated > 0 && summary.generate_seconds > 0.0
                       ? run.generated / summary.generate_seconds
                       : 0.0,
                   std::max(0.0, summary.seconds - answer_seconds - summary.prompt_seconds -
                                     summary.generate_seconds)});
  }
  return summary;
}

}  // namespace kvloupe
