#include "capture/eval/rescue_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/replay/follow.h"
#include "analysis/trace/segments.h"
#include "analysis/trace/trace.h"
#include "analysis/utf8.h"
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

}  // namespace kvloupe
