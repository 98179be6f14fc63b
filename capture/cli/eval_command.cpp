// kvloupe-capture eval: needles in haystacks and perplexity with policies in the model's cache.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/core/error.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/typed_values.h"
#include "capture/cli/commands.h"
#include "capture/cli/interrupt.h"
#include "capture/cli/progress_report.h"
#include "capture/cli/shared_options.h"
#include "capture/eval/evaluate.h"

namespace kvloupe::capture_cli::eval_verb {

namespace {

struct EvalOptions {
  EvalRequest request;
  std::string policies, budgets, lengths = "512,1024", depths = "0,25,50,75,100";
  std::optional<Compression> compression;
  std::string progress = "bar";
  bool dry_run = false;
};

/// Numbers between two limits, separated by commas.
template <typename Number>
std::vector<Number> numbers_of(const char* option, const std::string& text, Number least,
                               Number most) {
  std::vector<Number> numbers;
  for (const std::string& item : comma_list(text)) {
    const auto number = number_in<Number>(item);
    if (!number || *number < least || *number > most) {
      throw UsageError(fmt::format("{} {}: '{}' is not a number from {} to {}", option, text, item,
                                   least, most));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::string run_text(const EvaluationRun& run) {
  const std::string text = fmt::format("{} at {}, {} tokens", run.policy, run.budget, run.tokens);
  if (std::isnan(run.depth)) return text + fmt::format(": loss {:.4f}", run.loss);
  return text +
         fmt::format(", depth {:g} %: {}", run.depth, run.correct == 1.0 ? "found" : "missed");
}

/// The summary as a table: a line per policy and budget.
void print_summary(const std::vector<EvaluationSummary>& summary) {
  for (const auto& [mean, runs] : summary) {
    fmt::print("{:<32} {:>8}  {:>4} runs", mean.policy, mean.budget, runs);
    if (!std::isnan(mean.correct)) fmt::print("  {:5.1f} % found", 100.0 * mean.correct);
    if (!std::isnan(mean.loss)) {
      fmt::print("  perplexity {:.3f}, loss {:+.4f}", std::exp(mean.loss), mean.loss_difference);
    }
    if (!std::isnan(mean.kl))
      fmt::print(", KL {:.4f}, same top token {:.1f} %", mean.kl, 100.0 * mean.same_top1);
    fmt::print("\n");
  }
}

int run_eval(EvalOptions options) {
  EvalRequest& request = options.request;
  if (request.task == Evaluation::Task::perplexity &&
      options.compression == Compression::context_only) {
    throw UsageError(
        "--compression context-only: perplexity does not ask a question; leave the option out");
  }
  if (options.compression) request.compression = *options.compression;
  request.policies = parse_policy_list(options.policies);
  request.budgets = parse_budgets(options.budgets);
  request.lengths = numbers_of<int>("--lengths", options.lengths, 2, 1 << 24);
  request.depths = numbers_of<double>("--depths", options.depths, 0.0, 100.0);
  check_output(request.output, request.model,
               {request.needle_template.value_or(""), request.filler.value_or("")});
  const std::unique_ptr<ProgressReport> shown = make_progress_report(options.progress);
  EvalReport report;
  report.note = [&](const std::string& note) { shown->on_note(note); };
  report.run = [&](long done, long total, const EvaluationRun& run) {
    shown->on_run(fmt::format("[{}/{}] {}", done, total, run_text(run)),
                  {{"done", done}, {"total", total}, {"run", run_json(run, request.task)}});
  };
  Progress progress;
  const InterruptGuard guard(progress);
  if (options.dry_run) {
    print_forecast(forecast_evaluation(request, progress), request.output, false, options.progress);
    return 0;
  }
  try {
    const Evaluation results = evaluate(request, progress, report);
    shown->clear();
    if (shown->prints_results()) print_summary(summary_of(results));
  } catch (const Cancelled&) {
    throw WorkError("stopped; the finished runs are in " + request.output +
                    ": run the same command again to continue");
  }
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<EvalOptions>(
      app, action, "eval", "Measure policies in the model's own cache: needles found, perplexity",
      run_eval);
  EvalRequest& request = options->request;
  add_model_options(*verb, request.model);
  add_chat_options(*verb, request.model);
  add_choice_option(
      *verb, "--task", request.task,
      {{"needle", Evaluation::Task::needle}, {"perplexity", Evaluation::Task::perplexity}},
      "needle: find a number in a long text; perplexity: predict a text")
      ->required();
  verb->add_option("--policies", options->policies, "Policies, such as h2o+recent(50%),keydiff")
      ->required();
  verb->add_option("--budgets", options->budgets, "Counts or shares of the prompt: 10%,25%,128")
      ->required();
  verb->add_option(
          "-o,--output", request.output,
          "The results: JSON, or those of a study (SQLite) where the name ends in .sqlite; "
          "runs that the file already has are kept, so a stopped evaluation continues")
      ->required();
  verb->add_option("--lengths", options->lengths, "Prompt lengths in tokens, separated by commas")
      ->capture_default_str();
  verb->add_option("--depths", options->depths, "Percent of the text before the needle in question")
      ->capture_default_str();
  verb->add_option("--needles", request.needles,
                   "Numbers hidden in a prompt; the question asks for one")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--samples", request.samples, "Prompts of each length and depth")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb->add_option("--seed", request.seed,
                   "Random seed for the words, the numbers and the place where the filler starts")
      ->capture_default_str();
  add_word_option(*verb, "--compression", options->compression, compression_words(),
                  kCompressionHelp);
  add_positions_option(*verb, request.positions);
  verb->add_option("--template", request.needle_template,
                   "Needle, question and words (JSON); default: needle.json in the model's folder, "
                   "or else a general template");
  verb->add_option("--filler", request.filler, "A text or prompt file to fill prompts with");
  add_block_option(*verb, request.block, CLI::Range(1, 1 << 30));
  add_probe_option(
      *verb, request.probe,
      "For policies that read the context a second time (kvzip, kvcompose), with --block as long "
      "as the prompt: repeat asks the model to repeat the context, reread reads it again as it is");
  add_dtype_option(*verb, request.dtype);
  add_device_options(*verb, request.device, request.threads);
  verb->add_flag("--dry-run", options->dry_run,
                 "Run nothing: say how many runs of the model are missing, about how large the "
                 "results will be, where they go, in which precision the model computes, and how "
                 "long the runs take at most");
  add_progress_option(*verb, options->progress);
}

}  // namespace kvloupe::capture_cli::eval_verb
