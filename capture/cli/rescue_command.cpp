// kvloupe-capture rescue: which heads' loss of some tokens makes an answer wrong.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "analysis/command_line.h"
#include "analysis/duration_text.h"
#include "analysis/error.h"
#include "capture/cli/case_options.h"
#include "capture/cli/commands.h"
#include "capture/cli/interrupt.h"
#include "capture/cli/model_options.h"
#include "capture/eval/eval_case.h"
#include "capture/eval/rescue.h"
#include "capture/run/probe_kind.h"

namespace kvloupe::capture_cli::rescue_verb {

namespace {
using Json = nlohmann::ordered_json;

struct RescueOptions {
  RescueRequest request;
  std::string policy, budget, prompt, trace, tokens, segment, expect;
  EvalCaseRequest from;  // --results and --row
  std::string progress = "bar";
  bool has_block = false, has_dtype = false;
};

std::string heads_of(const Json& smallest) {
  std::string text;
  for (const Json& head : smallest["heads"]) {
    text +=
        fmt::format("{}{}.{}", text.empty() ? "" : ", ", head[0].get<int>(), head[1].get<int>());
  }
  return text;
}

void print_summary(const Json& results) {
  const auto line = [](const char* what, const Json& one) {
    fmt::print("{:<44} {:<6} log-probability {:8.3f}\n", what,
               one["right"].get<bool>() ? "right" : "wrong", one["logprob"].get<double>());
  };
  fmt::print("expected: \"{}\"\n", results["expected"]["text"].get<std::string>());
  line("full cache", results["full"]);
  line("policy", results["policy"]);
  if (!results["policy"]["right"].get<bool>()) {
    fmt::print("  it says: \"{}\"\n", results["policy"]["says"].get<std::string>());
  }
  line("policy, tokens kept in all heads", results["keep"]["all"]);
  line("full cache, tokens dropped in all heads", results["drop"]["all"]);
  for (const char* side : {"keep", "drop"}) {
    const bool keep = std::string(side) == "keep";
    const Json& smallest = results[side]["smallest"];
    if (!smallest.is_null()) {
      fmt::print("{}, {}: {} head{} (layer.head): {}\n",
                 keep ? "enough to restore the answer" : "enough to break it",
                 smallest["minimal"].get<bool>() ? "none can be left out"
                                                 : "perhaps not all are needed, --runs ended",
                 smallest["heads"].size(), smallest["heads"].size() == 1 ? "" : "s",
                 heads_of(smallest));
    }
    Json heads = results[side]["heads"];
    std::sort(heads.begin(), heads.end(), [&](const Json& a, const Json& b) {
      const double x = a["gain"].get<double>(), y = b["gain"].get<double>();
      return keep ? x > y : x < y;
    });
    fmt::print("{}\n", keep ? "kept in one head alone, the largest gains:"
                            : "dropped in one head alone, the largest losses:");
    for (std::size_t i = 0; i < std::min<std::size_t>(heads.size(), 5); ++i) {
      fmt::print("  {}.{}  {:+.3f}  {}\n", heads[i]["layer"].get<int>(),
                 heads[i]["head"].get<int>(), heads[i]["gain"].get<double>(),
                 heads[i]["right"].get<bool>() ? "right" : "wrong");
    }
  }
  const Json& within = results["predicted"]["set_within"];
  if (within.is_number()) {
    fmt::print("the heads that restore it are among the first {} of {} that the replay blames\n",
               within.get<int>(), results["predicted"]["heads"].size());
  }
  const Json& rho = results["predicted"]["rank_correlation"];
  if (rho.is_number()) {
    fmt::print("rank correlation of the replay's blame and the gain, of {} heads: {:.2f}\n",
               results["keep"]["heads"].size(), rho.get<double>());
  }
}

RescueReport report_for(const std::string& kind) {
  RescueReport report;
  report.note = [kind](const std::string& note) {
    if (kind == "json") {
      fmt::print("{}\n", Json{{"event", "note"}, {"text", note}}.dump());
    } else {
      fmt::print(stderr, "kvloupe-capture: {}\n", note);
    }
  };
  if (kind == "json") {
    report.run = [](const RescueRun& run) {
      const Json line{{"event", "run"},
                      {"policy", run.policy},
                      {"right", run.right},
                      {"logprob", run.logprob},
                      {"run", run.number},
                      {"most", run.most},
                      {"seconds_left", run.seconds_left}};
      fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
      std::fflush(stdout);
    };
  } else if (kind == "bar" && ::isatty(STDERR_FILENO) == 1) {
    report.run = [](const RescueRun& run) {
      fmt::print(stderr, "\r[{} of at most {}, {} left] {}: {}\x1B[K", run.number, run.most,
                 duration_text(run.seconds_left), run.policy, run.right ? "right" : "wrong");
    };
  }
  return report;
}

/// The prompt of a run of an evaluation, and what the command line does not say: its policy,
/// budget, block and precision.
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
        "to "
        "the end");
  }
  if (options.policy.empty() && one.policy == kFullCache) {
    throw UsageError("--row " + std::to_string(from.row) +
                     ": is a run of the full cache; name a row of a policy, or give --policy");
  }
  if (options.policy.empty()) options.policy = one.policy;
  if (options.budget.empty()) options.budget = one.budget;
  if (!options.has_block) request.block = one.block;
  if (!options.has_dtype) request.dtype = one.dtype;
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
  if (!options.trace.empty()) request.trace = options.trace;
  if (!options.tokens.empty()) request.tokens = options.tokens;
  if (!options.segment.empty()) request.tokens = options.segment;
  if (!options.expect.empty()) request.expect = options.expect;
  request.policy = parse_policy(options.policy);
  request.budget = parse_budget(options.budget);
  check_output(request.output, request.model,
               {options.prompt, options.trace, options.from.results,
                options.from.needle_template.value_or(""), options.from.filler.value_or("")});
  Progress progress;
  const InterruptGuard guard(progress);
  try {
    const Json results = rescue(request, progress, report_for(options.progress));
    if (options.progress == "bar" && ::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\x1B[K");
    if (options.progress == "bar") print_summary(results);
  } catch (const Cancelled&) {
    throw WorkError("stopped; the finished runs are in " + request.output +
                    ": run the same command again to continue");
  }
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "rescue",
      "Find the heads whose loss of some tokens makes an answer wrong, by running the model");
  const auto options = std::make_shared<RescueOptions>();
  RescueRequest& request = options->request;
  add_model_options(*verb, request.model);
  verb->add_option("--prompt", options->prompt, "A prompt file");
  verb->add_option("--trace", options->trace, "Or a trace of it with the full cache");
  CLI::Option* results =
      verb->add_option("--results", options->from.results,
                       "Or results of kvloupe-capture eval --task needle or of a study: the "
                       "prompt, and where they are not given "
                       "the policy, budget and block, of one of its runs (--row)");
  add_case_options(*verb, results, options->from);
  verb->add_option("--policy", options->policy, "A policy, such as keydiff+recent(10%)");
  verb->add_option("--budget", options->budget,
                   "Entries a head may hold: a count, or a share of the prompt such as 25%");
  verb->add_option("--tokens", options->tokens, "Tokens to rescue, such as 120-131,140");
  verb->add_option("--segment", options->segment,
                   "A segment of the prompt instead (default: needle)");
  verb->add_option("--expect", options->expect,
                   "The right continuation (default: what the full cache says)");
  verb->add_option("--answer-tokens", request.answer_tokens,
                   "Tokens of the answer, without --expect")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb->add_option("--runs", request.most_runs,
                   "Runs of the model at most; 0: every layer and every head alone (default: 0 for "
                   "a model of few heads, else 80)")
      ->check(CLI::Range(0, 1 << 20));
  verb->add_option("-o,--output", request.output,
                   "The results (JSON); runs that the file already has are kept, so a stopped "
                   "search continues")
      ->required();
  CLI::Option* block =
      verb->add_option("--block", request.block, "Prompt tokens that are run at once")
          ->check(CLI::Range(1, 1 << 30))
          ->capture_default_str();
  add_word_option(*verb, "--probe", request.probe, probe_words(),
                  "How the model reads the context a second time, for a policy such as kvzip that "
                  "needs this (default: repeat, or as the evaluation's run did; of a trace, as in "
                  "the trace); needs --block as long as the context");
  CLI::Option* dtype =
      verb->add_option("--dtype", request.dtype,
                       "Precision of the model: auto is bf16 if the CPU supports it")
          ->check(CLI::IsMember({"auto", "f32", "bf16"}))
          ->capture_default_str();
  verb->add_option("--device", request.device, "cpu, cuda or cuda:i")->capture_default_str();
  verb->add_option("--threads", request.threads, "Threads for the model's products")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--progress", options->progress,
                   "bar, json (one object per line on stdout) or none")
      ->check(CLI::IsMember({"bar", "json", "none"}))
      ->capture_default_str();
  verb->callback([options, block, dtype, &action] {
    options->has_block = block->count() > 0;
    options->has_dtype = dtype->count() > 0;
    action = [options] { return run_rescue(*options); };
  });
}

}  // namespace kvloupe::capture_cli::rescue_verb
