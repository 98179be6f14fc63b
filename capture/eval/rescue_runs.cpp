#include "capture/eval/rescue_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/utf8.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/follow_json.h"
#include "analysis/trace/loops.h"
#include "analysis/trace/segments.h"
#include "analysis/trace/trace.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture.h"
#include "capture/run/capture_input.h"
#include "capture/run/probe.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {
bool reads_probe(const RescueRequest& request) {
  return has_trait(request.policy, &PolicyTraits::reads_probe);
}

void take_trace_prompt(const RescueRequest& request, const ModelConfig& config,
                       const RescueReport& report, RescuePrompt& prompt) {
  const Trace trace(*request.trace);
  if (trace.run().closed_loop()) {
    throw UsageError(request.trace->string() +
                     ": is a closed-loop run; give a run with the full cache");
  }
  prompt.ids.assign(trace.tokens().ids.begin(),
                    trace.tokens().ids.begin() + trace.run().prompt_length);
  prompt.tokens = named_tokens(trace, request.tokens);
  prompt.name = request.trace->string();
  const std::filesystem::path& tokenizer = request.model.tokenizer_place();
  if (has_tokenizer(tokenizer)) prompt.tokenizer = open_tokenizer(tokenizer);
  const std::int64_t longest = std::ssize(prompt.ids) + request.answer_tokens;
  for (const std::string& note :
       {prompt.tokenizer ? compare_texts(prompt.name, trace.tokens(), *prompt.tokenizer) : "",
        beyond_positions(longest, config)}) {
    if (!note.empty() && report.note) report.note(note);
  }
  if (reads_probe(request)) {
    check_probe(request.policy, trace);
    prompt.probe = TraceProbe(trace).info();
  }
  check_vocabulary(prompt.ids, config, request.model.path);
}

void take_text_prompt(const RescueRequest& request, const ModelConfig& config,
                      const RescueReport& report, RescuePrompt& prompt) {
  CaptureRequest wanted{.model = request.model,
                        .prompt = request.prompt,
                        .tokens = request.sequence,
                        .generate = request.answer_tokens};
  CaptureInput input = read_capture_input(wanted, config);
  for (const std::string& note : input.notes) {
    if (report.note) report.note(note);
  }
  prompt.ids = input.tokens.ids;
  prompt.tokenizer = std::move(input.tokenizer);
  prompt.name = request.prompt ? request.prompt->string() : request.sequence_name;
  if (prompt.tokenizer && prompt.tokenizer->chat)
    prompt.name += ", chat: " + prompt.tokenizer->chat->facts;
  prompt.sequence = std::move(input.tokens);
  TokenTable table{.ids = prompt.ids,
                   .segment = prompt.sequence.segment,
                   .segment_names = prompt.sequence.names};
  prompt.tokens = named_tokens(table, prompt.length(), request.tokens);
  if (!reads_probe(request)) return;
  RunInfo run;
  run.prompt_length = prompt.length();
  prompt.probe = make_probe(request.probe.value_or(ProbeKind::repeat),
                            std::span(std::as_const(prompt.ids))
                                .first(static_cast<std::size_t>(question_begin(table, run))),
                            prompt.tokenizer.get());
}

/// The text is read as what follows the prompt, where the tokenizer lets the prompt be as it is.
std::vector<std::int32_t> tokens_after(const RescuePrompt& prompt, const std::string& text) {
  if (!prompt.tokenizer) throw UsageError("--expect: the model's folder has no tokenizer");
  const auto encoded = [&](const std::string& all) {
    std::vector<std::int32_t> ids;
    for (const EncodedToken& token : prompt.tokenizer->encode(all)) ids.push_back(token.id);
    return ids;
  };
  std::vector<std::int32_t> whole = encoded(prompt.tokenizer->decode(prompt.ids) + text);
  if (const auto bos = prompt.tokenizer->bos(); bos && prompt.ids.front() == *bos) {
    whole.insert(whole.begin(), *bos);
  }
  if (whole.size() > prompt.ids.size() &&
      std::equal(prompt.ids.begin(), prompt.ids.end(), whole.begin())) {
    return {whole.begin() + prompt.length(), whole.end()};
  }
  std::vector<std::int32_t> alone = encoded(text);
  if (alone.empty())
    throw UsageError("--expect '" + text + "': the tokenizer gives no token for it");
  return alone;
}
}  // namespace

std::string RescuePrompt::text_of(const std::vector<std::int32_t>& some) const {
  std::string text;
  for (const std::int32_t id : some) {
    text += tokenizer ? tokenizer->piece_bytes(id) : fmt::format("{} ", id);
  }
  return escape_invalid_utf8(text);
}

RescuePrompt read_rescue_prompt(const RescueRequest& request, const ModelConfig& config,
                                const RescueReport& report) {
  RescuePrompt prompt;
  if (request.trace) {
    take_trace_prompt(request, config, report, prompt);
  } else {
    take_text_prompt(request, config, report, prompt);
  }
  std::erase_if(prompt.tokens, [&](int token) { return token >= prompt.length(); });
  if (prompt.tokens.empty())
    throw UsageError("tokens '" + request.tokens + "': none is in the prompt");
  if (request.expect) prompt.expected = tokens_after(prompt, *request.expect);
  if (!prompt.probe) return prompt;
  if (request.block < prompt.probe->context_end) {
    throw UsageError(
        fmt::format("rescue: {} needs the context read a second time before it evicts: run the "
                    "{} tokens as one block, with --block {} or more",
                    request.policy.text(), prompt.probe->context_end, prompt.length()));
  }
  check_vocabulary(prompt.probe->ids, config, request.model.path);
  return prompt;
}

namespace {
// A model of up to so many layers and heads has each run alone; of larger ones, so many runs are
// made.
constexpr int kFewPlaces = 24;
constexpr int kMostRuns = 80;

std::string spec_with(const std::string& modifier, PolicySpec policy,
                      const std::vector<int>& tokens, const std::vector<HeadIndex>& heads) {
  if (policy.find(modifier) != nullptr) {
    throw UsageError("policy: it has " + modifier + " already; give the policy without it");
  }
  SpecPart part = default_part(*find_policy(modifier));
  for (auto& [name, value] : part.arguments) {
    if (name == "tokens") value = ranges_text(tokens, "-", ";");
    if (name == "heads") value = heads_text(heads, ";");
  }
  policy.parts.push_back(std::move(part));
  return parse_policy(policy.text()).text();
}
}  // namespace

std::string spec_keeping(const PolicySpec& policy, const std::vector<int>& tokens,
                         const std::vector<HeadIndex>& heads) {
  return spec_with("keep", policy, tokens, heads);
}

std::string spec_dropping(const std::vector<int>& tokens, const std::vector<HeadIndex>& heads) {
  return spec_with("drop", parse_policy(kFullCache), tokens, heads);
}

RescueRuns::RescueRuns(const RescueRequest& request, const RescuePrompt& prompt,
                       const ModelConfig& config, const ModelInfo& info, at::Device device,
                       at::ScalarType type, Progress& progress, const RescueReport& report,
                       RescueResults& results)
    : request_(request),
      prompt_(prompt),
      config_(config),
      info_(info),
      progress_(progress),
      report_(report),
      results_(results),
      model_(std::make_unique<Transformer>(
          load_transformer(request.model.path, config, type, device, request.model.weights))),
      recording_(1 << 30, request.most_shared) {}

std::vector<HeadIndex> RescueRuns::heads_of_layer(int layer) const {
  std::vector<HeadIndex> all;
  for (int head = 0; head < heads(); ++head) all.push_back({layer, head});
  return all;
}

std::vector<HeadIndex> RescueRuns::all_heads() const {
  std::vector<HeadIndex> all;
  for (int layer = 0; layer < layers(); ++layer) {
    for (const HeadIndex& head : heads_of_layer(layer)) all.push_back(head);
  }
  return all;
}

bool runs_all_alone(const RescueRequest& request, const ModelInfo& info) {
  return request.most_runs == 0 ||
         (!request.most_runs && info.num_layers * (1 + info.num_kv_heads) <= kFewPlaces);
}

int most_rescue_runs(const RescueRequest& request, const ModelInfo& info) {
  const int layers = static_cast<int>(info.num_layers);
  const int all = layers * static_cast<int>(info.num_kv_heads);
  if (request.leave_one_out) return 4 + all;  // beside the heads: without, and in all heads at once
  // Everything alone on both sides, and room for the search.
  if (runs_all_alone(request, info)) return 2 + 2 * (1 + layers + all) + 4 * all;
  return request.most_runs.value_or(kMostRuns);
}

bool RescueRuns::exhaustive() const { return runs_all_alone(request_, info_); }

int RescueRuns::most_runs() const { return most_rescue_runs(request_, info_); }

bool RescueRuns::may_ask(const std::string& spec) const {
  return asked_.contains(spec) || static_cast<int>(asked_.size()) < most_runs();
}

EvalRun RescueRuns::start(const std::string& spec) const {
  EvalRun::Options options;
  options.most_tokens =
      prompt_.length() + std::max<int>(static_cast<int>(expected_.size()), request_.answer_tokens);
  options.block = request_.block;
  const PolicySpec policy = parse_policy(spec);
  if (!keeps_everything(policy)) {
    const bool full = find_policy(policy.score().name)->traits.keeps_everything;
    options.loop = ClosedLoop{policy, full ? options.most_tokens : results_.budget,
                              Positions::original, twice_ ? &*twice_ : nullptr, prompt_.length()};
    options.shared = &recording_;
  }
  return {*model_, info_, options};
}

std::vector<std::int32_t> RescueRuns::says(EvalRun& run) const {
  std::vector<std::int32_t> said;
  for (int i = 0; i < request_.answer_tokens; ++i) {
    const std::int32_t choice = run.choice();
    if (ends_text(choice, config_, prompt_.tokenizer.get())) break;
    said.push_back(choice);
    if (i + 1 < request_.answer_tokens) run.read(std::span(&said.back(), 1), true, progress_);
  }
  return said;
}

std::vector<std::int32_t> RescueRuns::greedy(const std::string& spec) const {
  EvalRun run = start(spec);
  run.read(prompt_.ids, true, progress_);
  return says(run);
}

std::vector<std::int32_t> RescueRuns::record_full() {
  EvalRun::Options options;
  options.most_tokens = prompt_.length() + request_.answer_tokens;
  options.block = request_.block;
  options.record = &recording_;
  EvalRun run(*model_, info_, options);
  run.read(prompt_.ids, true, progress_);
  if (prompt_.probe) {
    states_.emplace(*model_, info_, *prompt_.probe, Storage::float32);
    run.read_again(*states_, progress_);
    twice_.emplace(*states_, nullptr);
  }
  return says(run);
}

RescueOutcome RescueRuns::outcome(const std::string& spec) {
  using Clock = std::chrono::steady_clock;
  asked_.insert(spec);
  if (const RescueOutcome* known = results_.find_run(spec)) return *known;
  progress_.check();
  const auto begin = Clock::now();
  EvalRun run = start(spec);
  run.read(prompt_.ids, true, progress_);
  RescueOutcome result{true, 0.0};
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    result.right = result.right && run.choice() == expected_[i];
    result.logprob += run.logprob(expected_[i]);
    if (i + 1 < expected_.size()) run.read(std::span(&expected_[i], 1), true, progress_);
  }
  if (request_.no_loop) result.right = find_loops(greedy(spec), 0).spans.empty();
  results_.runs.emplace_back(spec, result);
  write_rescue(results_, request_.output);
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  ++made_;
  if (report_.run) {
    const int asked = static_cast<int>(asked_.size());
    const int most = std::max(most_runs(), asked);
    report_.run(
        {spec, result.right, result.logprob, asked, most, (most - asked) * seconds_ / made_});
  }
  return result;
}

}  // namespace kvloupe
