// kvloupe-capture rescue: which heads' loss of some tokens makes an answer wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/given_tokens.h"
#include "capture/cli/commands.h"
#include "capture/cli/interrupt.h"
#include "capture/cli/progress_report.h"
#include "capture/cli/shared_options.h"
#include "capture/eval/eval_case.h"
#include "capture/eval/rescue.h"

namespace kvloupe::capture_cli::rescue_verb {

namespace {
constexpr int kMostOfTrace = 32;  // tokens of a trace's answer, unless asked for

struct RescueOptions {
  RescueRequest request;
  std::string policy, budget, prompt, trace, tokens, segment, expect;
  EvalCaseRequest from;  // --results and --row
  std::string progress = "bar";
  bool dry_run = false;
  CLI::Option *block = nullptr, *dtype = nullptr, *answer_tokens = nullptr;
};

void print_side(const RescueSide& side, bool keep) {
  if (side.smallest) {
    fmt::print("{}, {}: {} head{} (layer.head): {}\n",
               keep ? "enough to restore the answer" : "enough to break it",
               side.minimal ? "none can be left out" : "perhaps not all are needed, --runs ended",
               side.smallest->size(), side.smallest->size() == 1 ? "" : "s",
               heads_text(*side.smallest));
  }
  std::vector<RescueEffect> heads;
  std::copy_if(side.heads.begin(), side.heads.end(), std::back_inserter(heads),
               [](const RescueEffect& head) { return head.is_known(); });
  if (heads.empty()) return;
  std::sort(heads.begin(), heads.end(), [&](const RescueEffect& a, const RescueEffect& b) {
    return keep ? a.gain > b.gain : a.gain < b.gain;
  });
  fmt::print("{}\n", keep ? "kept in one head alone, the largest gains:"
                          : "dropped in one head alone, the largest losses:");
  for (std::size_t i = 0; i < std::min<std::size_t>(heads.size(), 5); ++i) {
    fmt::print("  {}.{}  {:+.3f}  {}\n", heads[i].at.layer, heads[i].at.head, heads[i].gain,
               heads[i].right ? "right" : "wrong");
  }
}

void print_summary(const RescueResults& results) {
  const auto line = [](const char* what, bool right, double logprob) {
    fmt::print("{:<44} {:<6} log-probability {:8.3f}\n", what, right ? "right" : "wrong", logprob);
  };
  if (results.expect == kNoLoop) {
    fmt::print(
        "right: a text of {} tokens without a loop; log-probabilities are of the full "
        "cache's text\n",
        results.answer_tokens);
  } else {
    fmt::print("expected: \"{}\"\n", in_lines(results.expected));
  }
  line("full cache", results.full_right, results.full_logprob);
  line("policy", results.policy_right, results.policy_logprob);
  if (!results.policy_right) fmt::print("  it says: \"{}\"\n", in_lines(results.policy_says));
  line("policy, tokens kept in all heads", results.keep.all.right, results.keep.all.logprob);
  line("full cache, tokens dropped in all heads", results.drop.all.right, results.drop.all.logprob);
  print_side(results.keep, true);
  print_side(results.drop, false);
  if (const int within = results.set_within(); within > 0) {
    fmt::print("the heads that restore it are among the first {} of {} that the replay blames\n",
               within, results.predictions.size());
  }
  fmt::print("the replay blames by {}, a mean over {}; gains are of {} expected token{}\n",
             results.predicted_by, in_one_line(results.predicted_over, 160),
             results.expected_ids.size(), results.expected_ids.size() == 1 ? "" : "s");
  if (results.stopped) {
    fmt::print(
        "{}: no set of heads was looked for, and only the first heads that the replay blames were "
        "run alone; --all goes on\n",
        results.policy_right ? "nothing has to be rescued"
                             : "keeping the tokens in all heads does not restore the answer");
  } else if (!std::isnan(results.rank_correlation)) {
    fmt::print("rank correlation of the replay's blame and the gain, of {} heads: {:.2f}\n",
               results.keep.known_heads(), results.rank_correlation);
  }
}

/// Takes the prompt of a run of an evaluation, and its policy, budget, block and precision where
/// the command line does not name them.
void take_case(RescueOptions& options) {
  RescueRequest& request = options.request;
  EvalCaseRequest from = options.from;
  from.model = request.model;
  EvalCase one = eval_case(from);
  if (one.positions == Positions::compact)
    throw UsageError("rescue: the evaluation ran with compact positions; original ones only");
  if (one.context_only) {
    throw UsageError(
        "rescue: the evaluation stopped evicting at the question (context-only); a rescue evicts "
        "to the end");
  }
  if (options.policy.empty() && one.policy == kFullCache) {
    throw UsageError("--row " + std::to_string(from.row) +
                     ": is a run of the full cache; name a row of a policy, or give --policy");
  }
  if (options.policy.empty()) options.policy = one.policy;
  if (options.budget.empty()) options.budget = one.budget;
  if (options.block->count() == 0) request.block = one.block;
  if (options.dtype->count() == 0) request.dtype = one.dtype;
  request.sequence = std::move(one.tokens);
  request.sequence_name = from.results.string() + " row " + std::to_string(from.row);
  if (one.expected.empty() && one.answers.empty()) {
    throw UsageError("--row " + std::to_string(from.row) +
                     ": has no right answer; name a run of the task needle or answer");
  }
  if (!one.expected.empty()) request.number = one.expected;
  request.answers = std::move(one.answers);
  request.answer_tokens = one.answer_tokens;
  const auto probe = probe_words().find(one.probe);
  if (!request.probe && probe != probe_words().end()) request.probe = probe->second;
}

int run_rescue(RescueOptions options) {
  RescueRequest& request = options.request;
  const bool results = !options.from.results.empty();
  if (static_cast<int>(!options.prompt.empty()) + static_cast<int>(!options.trace.empty()) +
          static_cast<int>(results) !=
      1) {
    throw UsageError("rescue: give one of --prompt, --trace and --results");
  }
  if (results) {
    take_case(options);
  } else if (options.policy.empty() || options.budget.empty()) {
    throw UsageError("rescue: needs --policy and --budget");
  }
  if (!options.tokens.empty() && !options.segment.empty()) {
    throw UsageError("rescue: give either --tokens or --segment");
  }
  if (!options.prompt.empty()) request.prompt = options.prompt;
  if (!options.trace.empty()) {
    request.trace = options.trace;
    // The first words of an answer often repeat the question, under any policy.
    if (options.expect.empty() && options.answer_tokens->count() == 0) {
      const Trace trace(options.trace);
      const TokenRange answer = answer_tokens(trace.tokens(), trace.run());
      request.answer_tokens =
          std::clamp(answer.end - answer.first, request.answer_tokens, kMostOfTrace);
    }
  }
  if (!options.tokens.empty()) request.tokens = options.tokens;
  if (!options.segment.empty()) request.tokens = options.segment;
  request.no_loop = options.expect == kNoLoop;
  if (!options.expect.empty() && !request.no_loop) request.expect = options.expect;
  request.policy = parse_policy(options.policy);
  request.budget = parse_budget(options.budget);
  check_output(request.output, request.model,
               {options.prompt, options.trace, options.from.results,
                options.from.needle_template.value_or(""), options.from.filler.value_or("")});
  const std::unique_ptr<ProgressReport> shown = make_progress_report(options.progress);
  RescueReport report;
  report.note = [&](const std::string& note) { shown->on_note(note); };
  report.run = [&](const RescueRun& run) {
    shown->on_run(
        fmt::format("[{} of at most {}, {} left] {}: {}", run.number, run.most,
                    duration_text(run.seconds_left), run.policy, run.right ? "right" : "wrong"),
        {{"policy", run.policy},
         {"right", run.right},
         {"logprob", run.logprob},
         {"run", run.number},
         {"most", run.most},
         {"seconds_left", run.seconds_left}});
  };
  Progress progress;
  const InterruptGuard guard(progress);
  if (options.dry_run) {
    print_forecast(forecast_rescue(request, progress, report), request.output, true,
                   options.progress);
    return 0;
  }
  try {
    const RescueResults found = rescue(request, progress, report);
    shown->clear();
    if (shown->prints_results()) print_summary(found);
  } catch (const Cancelled&) {
    throw WorkError("stopped; the finished runs are in " + request.output +
                    ": run the same command again to continue");
  }
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<RescueOptions>(
      app, action, "rescue",
      "Find the heads whose loss of some tokens makes an answer wrong, by running the model",
      run_rescue);
  RescueRequest& request = options->request;
  add_model_options(*verb, request.model);
  verb->add_option("--prompt", options->prompt, "A prompt file");
  verb->add_option("--trace", options->trace, "Or a trace of it with the full cache");
  CLI::Option* results = verb->add_option(
      "--results", options->from.results,
      "Or results of kvloupe-capture eval --task needle or of a study: the prompt of one of its "
      "runs (--row), and that run's policy, budget and block unless they are given");
  add_case_options(*verb, results, options->from);
  add_chat_options(*verb, request.model)->needs("--prompt");
  verb->add_option("--policy", options->policy, "A policy, such as keydiff+recent(10%)");
  verb->add_option(
      "--budget", options->budget,
      "Entries a head may hold: a count, or a share of the prompt such as 25%; or what "
      "all heads may hold: 12MB, 25%bytes");
  verb->add_option("--tokens", options->tokens, "Tokens to rescue, such as 120-131,140");
  verb->add_option("--segment", options->segment,
                   "A segment of the prompt instead (default: needle)");
  verb->add_option("--expect", options->expect,
                   "The right continuation (default: the answer of the full cache); no-loop: a "
                   "text of --answer-tokens tokens without a loop");
  options->answer_tokens =
      verb->add_option("--answer-tokens", request.answer_tokens,
                       "Tokens of the answer, without --expect (with --trace: all of the trace's "
                       "answer, at most 32)")
          ->check(CLI::Range(1, 4096))
          ->capture_default_str();
  verb->add_option("--runs", request.most_runs,
                   "Largest number of model runs; 0: run every layer and every head alone "
                   "(default: all of them for a model of few heads, else 80)")
      ->check(CLI::Range(0, 1 << 20));
  CLI::Option* leave =
      verb->add_flag("--leave-one-out", request.leave_one_out,
                     "Look for no set of heads: run the full cache without the tokens in each head "
                     "alone (figure cause-scatter)")
          ->excludes("--runs");
  verb->add_flag("--all", request.all,
                 "Go on where keeping the tokens in all heads does not restore the answer: run "
                 "heads alone, and look for those whose loss breaks the full cache's answer")
      ->excludes(leave);
  verb->add_option("-o,--output", request.output,
                   "The results (JSON); runs that the file already has are kept, so a stopped "
                   "search continues")
      ->required();
  options->block = add_block_option(*verb, request.block, CLI::Range(1, 1 << 30));
  add_probe_option(
      *verb, request.probe,
      "How the model reads the context a second time, for policies such as kvzip (default: repeat, "
      "or as in the evaluation's run or the trace); needs --block as long as the context");
  options->dtype = add_dtype_option(*verb, request.dtype);
  add_device_options(*verb, request.device, request.threads);
  verb->add_flag("--dry-run", options->dry_run,
                 "Run nothing: say how many runs of the model are missing, about how large the "
                 "results will be, where they go, in which precision the model computes, and how "
                 "long the runs take at most");
  add_progress_option(*verb, options->progress);
}

}  // namespace kvloupe::capture_cli::rescue_verb
