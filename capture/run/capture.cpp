#include "capture/run/capture.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>

#include "analysis/error.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/replay/budget_entries.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/model_fingerprint.h"
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
#include "capture/run/residual_changes.h"
#include "capture/run/run_rates.h"
#include "capture/run/structural_sequence.h"
#include "capture/run/trace_plan.h"

namespace kvloupe {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One run in the making: the sequence as it grows and everything it is written to.
class Run {
 public:
  /// `policy`: null for the full cache. `weights`: the trace holds W_O. `probe`: null without a
  /// second reading of the context.
  Run(const Transformer& model, const CaptureInput& input, const BlockRunner::Options& options,
      CachePolicy* policy, ModelProbe* probe, int acts_until, bool weights, TraceWriter& writer,
      Progress& progress, CaptureObserver& observer)
      : model_(model),
        storage_(options.storage),
        layers_(model, options.storage, policy != nullptr, writer),
        runner_(model, options),
        changes_(static_cast<int>(model.config().num_layers)),
        policy_(policy),
        probe_(probe),
        acts_until_(acts_until),
        writer_(writer),
        progress_(progress),
        observer_(observer),
        tokens_(input.tokens),
        prompt_length_(input.prompt_length),
        most_tokens_(options.most_tokens) {
    const auto layer_count = static_cast<int>(model.config().num_layers);
    for (int layer = 0; weights && layer < layer_count; ++layer) {
      progress.check();
      layers_.write_output_weight(layer);
    }
  }

  /// Runs the tokens up to `end` as one step; `last`: none will follow. Returns the model's choice
  /// for the next token.
  std::int32_t step(int end, bool last) {
    const int first = runner_.length();
    const std::span<const std::int32_t> ids = tokens_.ids;
    const bool probes = probe_ != nullptr && !probed_ && end >= probe_->info()->context_end;
    std::vector<StateTensors> held;  // of a step after which the probe runs before the policy acts
    const at::Tensor hidden = runner_.run(
        ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)),
        [&](const LayerStep& at_layer) {
          layers_.write(at_layer);
          if (policy_ == nullptr) return;
          if (probes) {
            held.push_back(at_layer.states);
          } else {
            policy_->cut(at_layer, last, end <= acts_until_);
          }
        },
        progress_,
        [&](int layer, const at::Tensor& left) {
          const std::vector<float> changes = changes_.add(layer, left);
          writer_.write_residual_change(layer, first, end - first, changes);
          if (policy_ != nullptr && policy_->reads_residual()) policy_->add_changes(layer, changes);
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
                     last, end <= acts_until_);
      }
    }
    if (policy_ != nullptr) policy_->end_pass();
    const int k =
        static_cast<int>(std::min<std::int64_t>(kTopPredictions, model_.config().vocab_size));
    const Predictions predictions =
        predict(model_, hidden, first, k, ids.subspan(static_cast<std::size_t>(first) + 1));
    writer_.write_predictions(first, end - first, predictions.ids, predictions.logprobs);
    const at::Tensor normed = model_.last_norm(hidden)[0].to(at::kCPU, at::kFloat).contiguous();
    writer_.write_final_hidden(
        first, end - first, {normed.data_ptr<float>(), static_cast<std::size_t>(normed.numel())});
    if (model_.config().has_plain_residual()) {
      writer_.write_final_rms(first, end - first, final_rms(hidden));
    }
    loss_.insert(loss_.end(), predictions.loss.begin(), predictions.loss.end());
    blocks_.push_back({first, end});
    observer_.on_tokens(end, prompt_length_, most_tokens_);
    const std::size_t best = predictions.ids.size() - static_cast<std::size_t>(k);
    choice_loss_ = -predictions.logprobs[best];
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

  /// After the last step.
  void finish() { layers_.finish(); }

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
    observer_.on_note(fmt::format(
        "probe: the model reads the {} tokens of the context a second time ({} tokens, {})",
        probe.context_end, probe.tokens(), probe.kind));
    writer_.write_probe(probe);
    if (policy_ != nullptr) {
      for (int layer = 0; layer < static_cast<int>(model_.config().num_layers); ++layer) {
        probe_->take_context(layer, runner_.cache(layer));
      }
    }
    kvloupe::run_probe(runner_, probe, progress_, [&](const ProbeStates& states) {
      write_probe(states);
      if (policy_ != nullptr) probe_->take(states);
    });
  }
  void write_probe(const ProbeStates& of) {
    const auto dense = [](const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); };
    const auto span = [](const at::Tensor& x) {
      return std::span<const float>(x.data_ptr<float>(), static_cast<std::size_t>(x.numel()));
    };
    const at::Tensor query = dense(as_stored(of.states.query[0], storage_));
    const at::Tensor key = dense(as_stored(of.states.key[0], storage_));
    const at::Tensor norm = dense(of.input_norm);
    writer_.write_probe_states(of.layer, of.first, static_cast<int>(norm.numel()), span(query),
                               span(key), span(norm));
  }

  const Transformer& model_;
  Storage storage_;
  LayerWriter layers_;
  BlockRunner runner_;
  ResidualChanges changes_;
  CachePolicy* policy_;
  ModelProbe* probe_;
  bool probed_ = false;
  int acts_until_;  // the policy acts at the steps that end at this token or before
  TraceWriter& writer_;
  Progress& progress_;
  CaptureObserver& observer_;
  TokenSequence tokens_;
  int prompt_length_;
  int most_tokens_;
  std::vector<Block> blocks_;
  std::vector<float> loss_;
  float choice_loss_ = 0.0F;
};

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

void write_lm_head(const Transformer& model, TraceWriter& writer) {
  const at::Tensor wide = model.head_weight().to(at::kCPU, at::kFloat).contiguous();
  writer.write_lm_head({wide.data_ptr<float>(), static_cast<std::size_t>(wide.numel())});
}

/// The rows of the output head that belong to a sequence of these ids.
void write_lm_head_rows(const Transformer& model, std::vector<std::int32_t> ids,
                        TraceWriter& writer) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const at::Tensor index =
      at::from_blob(ids.data(), {static_cast<std::int64_t>(ids.size())}, at::kInt).to(at::kLong);
  const at::Tensor wide = model.head_rows(index).to(at::kCPU, at::kFloat).contiguous();
  writer.write_lm_head_rows(ids, {wide.data_ptr<float>(), static_cast<std::size_t>(wide.numel())});
}

TokenTable token_table(const TokenSequence& tokens, const Tokenizer* tokenizer) {
  TokenTable table;
  table.ids = tokens.ids;
  table.segment = tokens.segment;
  table.segment_names = tokens.names;
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
  const auto time = foreseen_time(remembered_rate(made.rate), made.config, made.run);
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
  const std::optional<ProbeInfo>& probe_info = made.probe;
  const int forced = made.forced, acts_until = made.acts_until;
  RunInfo run = made.run;
  check_space(request, plan);
  TraceWriterOptions options = plan.options;
  options.fingerprint = made.fingerprint;

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
  observer.on_size(plan.size, fmt::format("{}; computed in {}; {}", forecast.size_text,
                                          forecast.dtype, forecast.time_text));
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
    const at::Tensor last_norm = model.last_norm_weight().to(at::kCPU, at::kFloat).contiguous();
    writer.write_final_norm(
        {last_norm.data_ptr<float>(), static_cast<std::size_t>(last_norm.numel())});
  }
  if (input.tokenizer) write_vocabulary(*input.tokenizer, info, writer);
  BlockRunner::Options running;
  running.most_tokens = run.tokens();
  // Tokens that may never be generated take no memory: a cache grows.
  constexpr int kRoomToGenerate = 1024;
  running.capacity = std::min(run.tokens(), input.prompt_length + forced + kRoomToGenerate);
  running.storage = request.storage;
  running.keep_rows = options.store_attention;
  running.positions = request.positions;
  std::optional<ModelProbe> probe;
  std::optional<SequenceTables> twice;
  if (probe_info) {
    probe.emplace(model, info, *probe_info, request.storage);
    twice.emplace(*probe, &progress);
  }
  std::optional<CachePolicy> policy;
  std::optional<StructuralSequence> structure;
  if (request.policy) {
    if (input.tokenizer) structure.emplace(input.tokens, *input.tokenizer);
    policy.emplace(
        model, info,
        ClosedLoop{*request.policy, run.budget, request.positions, twice ? &*twice : nullptr,
                   input.prompt_length, structure ? &structure->flags() : nullptr},
        request.storage);
    running.capacity = static_cast<int>(std::min<std::int64_t>(
        run.tokens(), std::int64_t{run.budget} + std::min(request.block, run.tokens())));
  }
  Run at_work(model, input, running, policy ? &*policy : nullptr, probe ? &*probe : nullptr,
              acts_until, !plan.weights, writer, progress, observer);
  CaptureSummary summary;
  const auto run_start = std::chrono::steady_clock::now();
  std::int32_t choice = 0;
  const int known = input.prompt_length + forced;
  const auto is_last = [&](int end) { return request.generate == 0 && end == known; };
  const int border = acts_until < input.prompt_length ? acts_until : 0;
  for (const Block& block : make_blocks(input.prompt_length, 0, request.block, border)) {
    choice = at_work.step(block.end, is_last(block.end));
  }
  summary.prompt_seconds = seconds_since(run_start);
  const auto generate_start = std::chrono::steady_clock::now();
  for (int end = input.prompt_length + 1; end <= known; ++end) {
    choice = at_work.step(end, is_last(end));
  }
  int chosen = 0;
  while (chosen < request.generate) {
    const bool last = ends_text(choice, config, input.tokenizer.get());
    at_work.append(choice, last);
    if (structure) structure->extend(at_work.tokens());
    ++chosen;
    choice = at_work.step(at_work.length(), last || chosen == request.generate);
    if (last) break;
  }
  summary.generate_seconds = seconds_since(generate_start);

  run.generated = forced + chosen;
  run.seconds = seconds_since(run_start);
  at_work.finish();
  if (policy) write_cuts(*policy, info.num_layers, writer);
  if (plan.contents.lm_head_rows > 0) {
    write_lm_head_rows(model, at_work.tokens().ids, writer);
  }
  writer.finish(run, token_table(at_work.tokens(), input.tokenizer.get()), at_work.blocks(),
                at_work.losses());
  for (const std::string& note : writer.notes()) observer.on_note(note);

  summary.fingerprint = options.fingerprint;
  summary.prompt_length = run.prompt_length;
  summary.generated = run.generated;
  if (input.tokenizer) {
    // The continuation as it reads after the prompt: a piece's leading space belongs to it.
    const std::vector<std::int32_t>& ids = at_work.tokens().ids;
    const std::string before =
        input.tokenizer->decode({ids.begin(), ids.begin() + run.prompt_length});
    const std::string whole = input.tokenizer->decode(ids);
    summary.generated_text = whole.substr(std::min(before.size(), whole.size()));
  }
  summary.seconds = seconds_since(start);
  // A model that was loaded for another run says nothing of the next one's time, nor does a prompt
  // that takes hardly any.
  constexpr double kLeastSeconds = 0.05;
  if (loaded == nullptr && !made.fingerprint.empty() && summary.prompt_seconds > kLeastSeconds) {
    remember_rate(made.rate, {prompt_work(config, made.run) / summary.prompt_seconds,
                              run.generated > 0 && summary.generate_seconds > 0.0
                                  ? run.generated / summary.generate_seconds
                                  : 0.0,
                              std::max(0.0, summary.seconds - summary.prompt_seconds -
                                                summary.generate_seconds)});
  }
  return summary;
}

}  // namespace kvloupe
