#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/compression.h"
#include "analysis/trace/trace.h"
#include "capture/cli/commands.h"
#include "capture/cli/interrupt.h"
#include "capture/cli/progress_report.h"
#include "capture/cli/shared_options.h"
#include "capture/eval/eval_case.h"
#include "capture/run/capture_set.h"
#include "capture/run/compute.h"

namespace kvloupe::capture_cli::run_verb {

namespace {

struct RunOptions {
  CaptureRequest request;
  EvalCaseRequest from;         // results, row
  std::filesystem::path trace;  // --from
  std::optional<std::filesystem::path> set;
  std::string policy = "full";
  std::string budget;
  Positions positions = Positions::original;
  std::optional<Compression> compression;
  std::string progress = "bar";
  bool dry_run = false;
  CLI::Option *block = nullptr, *generate = nullptr, *dtype = nullptr;
};

/// Takes the prompt of a run of an evaluation, and its block and length of the answer where the
/// command line does not name them.
void take_case(const RunOptions& options, CaptureRequest& request) {
  EvalCaseRequest from = options.from;
  from.model = request.model;
  EvalCase one = eval_case(from);
  request.tokens = std::move(one.tokens);
  if (options.block->count() == 0) request.block = one.block;
  if (options.generate->count() == 0) request.generate = one.answer_tokens;
  if (options.dtype->count() == 0) request.dtype = one.dtype;
  if (one.context_only) request.compression = Compression::context_only;
  const auto probe = probe_words().find(one.probe);
  if (!request.probe && probe != probe_words().end()) request.probe = probe->second;
}

/// Takes the tokens of a trace with their segments, and its block and precision where the command
/// line does not name them. The tokens after its prompt are forced, unless others are generated.
void take_trace(const RunOptions& options, CaptureRequest& request) {
  const Trace trace(options.trace);
  const TokenTable& table = trace.tokens();
  const int prompt = trace.run().prompt_length;
  TokenSequence tokens{.ids = table.ids, .segment = table.segment};
  if (!table.segment.empty()) tokens.names = table.segment_names;
  tokens.segment.resize(tokens.ids.size(), 0);
  if (options.generate->count() > 0) {
    tokens.ids.resize(static_cast<std::size_t>(prompt));
    tokens.segment.resize(static_cast<std::size_t>(prompt));
  }
  request.tokens = std::move(tokens);
  request.tokens_of = options.trace;
  request.prompt_length = prompt;
  if (options.block->count() == 0) request.block = trace.run().block_size;
  const std::string& dtype = trace.run().dtype;  // other programs run in others
  if (options.dtype->count() == 0 && (dtype == "f32" || dtype == "bf16")) request.dtype = dtype;
}

/// The request with the policy that the command line names. The full cache does not count as a
/// policy.
CaptureRequest request_of(const RunOptions& options) {
  CaptureRequest request = options.request;
  if (!options.from.results.empty()) take_case(options, request);
  if (!options.trace.empty()) take_trace(options, request);
  const PolicySpec policy = parse_policy(options.policy);
  if (keeps_everything(policy)) {
    if (options.compression) {
      throw UsageError(
          "--compression: the full cache evicts nothing; leave it out, or give a --policy");
    }
    if (!options.budget.empty()) {
      throw UsageError("--budget " + options.budget +
                       ": the full cache has no budget; leave --budget out, or give a --policy");
    }
    return request;
  }
  if (options.budget.empty()) {
    throw UsageError("--policy " + options.policy +
                     " needs --budget: a count of entries such as 256, a share of the prompt such "
                     "as 25%, or bytes such as 12MB or 25%bytes");
  }
  check_closed_loop(policy, true, true);
  request.policy = policy;
  request.budget = parse_budget(options.budget);
  request.positions = options.positions;
  if (options.compression) request.compression = *options.compression;
  return request;
}

/// Every prompt of a set into a folder.
int run_set(const RunOptions& options, const CaptureRequest& each) {
  CaptureSetRequest request{.each = each, .set = *options.set, .folder = each.target};
  const std::unique_ptr<ProgressReport> report = make_progress_report(options.progress);
  Progress progress;
  const InterruptGuard guard(progress);
  CaptureSetReport set_report;
  set_report.done = [&](const std::filesystem::path& trace, const CaptureSummary& summary, int done,
                        int total) {
    report->on_done(trace, summary);
    if (done == total || done % 10 == 0)
      report->on_note(fmt::format("{} of {} traces are finished", done, total));
  };
  set_report.note = [&](const std::string& note) { report->on_note(note); };
  set_report.found = [&](int traces) {
    report->on_note(fmt::format("{} traces were there before and are left as they are", traces));
  };
  try {
    run_capture_set(request, progress, *report, set_report);
  } catch (const Cancelled&) {
    throw WorkError("stopped; the traces made until then are in " + request.folder.string() +
                    ": run the same command again to continue");
  }
  return 0;
}

/// Prints the forecast of a run, and runs nothing.
int foresee(const RunOptions& options, const CaptureRequest& request) {
  Progress progress;
  const InterruptGuard guard(progress);
  const std::unique_ptr<ProgressReport> report = make_progress_report(options.progress);
  const CaptureForecast forecast = forecast_capture(request, progress, *report);
  const std::string store = request.storage == Storage::float32 ? "float32" : "float16";
  const std::string space = forecast.free
                                ? fmt::format(", where {} are free", bytes_text(*forecast.free))
                                : std::string();
  std::string tokens = fmt::format("{} tokens of prompt", forecast.prompt_length);
  if (request.generate > 0) {
    tokens += fmt::format(", at most {} generated", forecast.generated);
  } else if (forecast.generated > 0) {
    tokens += fmt::format(", {} given after it", forecast.generated);
  }
  OutputFile out("-");
  if (options.progress == "json") {
    const nlohmann::ordered_json line = {
        {"event", "forecast"},
        {"trace", request.target.string()},
        {"bytes", forecast.size.total()},
        {"free", forecast.free ? nlohmann::ordered_json(*forecast.free) : nullptr},
        {"prompt_length", forecast.prompt_length},
        {"generated", forecast.generated},
        {"dtype", forecast.dtype},
        {"store", request.storage == Storage::float32 ? "f32" : "f16"},
        {"seconds", forecast.seconds ? nlohmann::ordered_json(*forecast.seconds) : nullptr},
        {"time", forecast.time_text},
        {"text", forecast.size_text}};
    out.write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    out.write(
        fmt::format("{}\nfile: {}{}\ntokens: {}\nprecision: the model computes in {}; states "
                    "are stored as {}\ntime: {}\n",
                    forecast.size_text, request.target.string(), space, tokens,
                    why_compute_type(request.dtype, forecast.dtype), store, forecast.time_text));
  }
  out.finish();
  return 0;
}

int run_capture_command(const RunOptions& options) {
  const CaptureRequest request = request_of(options);
  check_output(
      request.target, request.model,
      {request.prompt.value_or(""), request.ids.value_or(""), options.trace, options.from.results,
       options.from.needle_template.value_or(""), options.from.filler.value_or("")});
  if (options.dry_run) return foresee(options, request);
  if (options.set) return run_set(options, request);
  const std::unique_ptr<ProgressReport> report = make_progress_report(options.progress);
  Progress progress;
  const InterruptGuard guard(progress);
  const CaptureSummary summary = run_capture(request, progress, *report);
  report->on_done(request.target, summary);
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<RunOptions>(
      app, action, "run",
      "Run a model on a prompt and write a trace with its queries, keys and values",
      run_capture_command);
  CaptureRequest& request = options->request;

  add_model_options(*verb, request.model);
  CLI::Option_group* prompt =
      verb->add_option_group("Prompt", "The text for the model: one of these");
  prompt->add_option("--prompt", request.prompt,
                     "Text file; a line @@context, @@needle or @@question starts a segment");
  prompt->add_option("--text", request.text, "The prompt itself");
  CLI::Option* ids = prompt->add_option("--ids", request.ids,
                                        "File of decimal token ids, separated by white space");
  CLI::Option* results = prompt->add_option(
      "--results", options->from.results,
      "Results of kvloupe-capture eval --task needle or of a study: the prompt of one of its runs "
      "(--row)");
  prompt->add_option(
      "--from", options->trace,
      "A trace: its tokens with their segments, in its blocks and its precision; "
      "what follows the prompt is given to the model, too, unless --generate is there");
  CLI::Option* set = prompt->add_option(
      "--prompt-set", options->set,
      "Many prompts: a folder of text files (*.txt), or JSON lines (*.jsonl) in the layout of "
      "RULER or LongBench; -o names a folder for the traces, and existing traces are kept");
  prompt->require_option(1);
  add_case_options(*verb, results, options->from);
  CLI::Option* chat = add_chat_options(*verb, request.model);
  for (const char* ready : {"--ids", "--results", "--from"}) chat->excludes(ready);
  CLI::Option* prompt_length = verb->add_option("--prompt-length", request.prompt_length,
                                                "With --ids: the first N ids are the prompt, the "
                                                "others are given to the model after it")
                                   ->needs(ids)
                                   ->check(CLI::Range(1, 1 << 30));
  verb->add_option("--question", request.question,
                   "With --ids: the token at which the question begins, counted from 0 in the file")
      ->needs(ids)
      ->check(CLI::Range(1, 1 << 30));
  verb->add_option("-o,--output", request.target, "The trace to write; with --prompt-set a folder")
      ->required();

  options->block = add_block_option(*verb, request.block, block_size(kWholePrompt));
  options->generate = verb->add_option("--generate", request.generate,
                                       "Largest number of tokens to generate, greedily")
                          ->check(CLI::Range(0, 1 << 30))
                          ->excludes(prompt_length)
                          ->capture_default_str();
  verb->add_flag(
          "--own-answer", request.own_answer,
          "Where tokens are given after the prompt (--from, --prompt-length): run the prompt "
          "once more, let the model write its own answer, and store this answer beside them")
      ->excludes(options->generate)
      ->excludes(set);
  verb->add_option(
          "--policy", options->policy,
          "Evict in every layer's cache after each block with this policy (kvloupe policies)")
      ->capture_default_str();
  verb->add_option("--budget", options->budget,
                   "Entries per head with a policy: N, or P% of the prompt; or what all heads may "
                   "hold in 16 bits: 12MB, 25%bytes");
  add_positions_option(*verb, options->positions);
  add_word_option(*verb, "--compression", options->compression, compression_words(),
                  kCompressionHelp);
  add_choice_option(*verb, "--attention", request.attention,
                    {{"none", AttentionStorage::none},
                     {"auto", AttentionStorage::automatic},
                     {"full", AttentionStorage::full}},
                    "Store attention matrices, for other programs: none (the default), full, or "
                    "auto (if they take at most 64 MB)");
  options->dtype = add_dtype_option(*verb, request.dtype);
  add_choice_option(*verb, "--store", request.storage,
                    {{"f16", Storage::float16}, {"f32", Storage::float32}},
                    "Precision of stored states");
  add_device_options(*verb, request.device, request.threads,
                     "Threads for the model's products (default: one for each physical core that "
                     "the process may use)");
  CLI::Option* head = verb->add_flag(
      "--lm-head", request.lm_head,
      "Store the output head, which logit effects and the exact KL of a drift need; "
      "without this option it is stored only if it takes at most 16 MB and less than "
      "the states, else its rows of the trace's own tokens, up to 16 MB");
  verb->add_flag(
          "--shared-weights", request.shared_weights,
          "Keep the output projections and the output head once for all traces of the model, "
          "in the cache folder: the trace is smaller and reads them from there. Without this "
          "option the trace holds what it needs itself; pack makes such a trace of any other")
      ->excludes(head);
  add_probe_option(
      *verb, request.probe,
      "Read the context a second time and store this reading's queries, which the "
      "policies kvzip and kvcompose need: repeat asks the model to repeat the context, "
      "reread reads it again as it is");
  verb->add_flag("--dry-run", options->dry_run,
                 "Run nothing: say how large the trace will be, where it goes, in which precision "
                 "the model computes and the states are stored, and about how long the run takes")
      ->excludes(set);
  add_progress_option(*verb, options->progress);
}

}  // namespace kvloupe::capture_cli::run_verb
