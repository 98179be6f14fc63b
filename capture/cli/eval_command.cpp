// kvloupe-capture eval: needles in haystacks and perplexity with policies in the model's cache.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "analysis/command_line.h"
#include "analysis/error.h"
#include "capture/cli/commands.h"
#include "capture/cli/interrupt.h"
#include "capture/cli/model_options.h"
#include "capture/eval/evaluate.h"
#include "capture/run/probe_kind.h"

namespace kvloupe::capture_cli::eval_verb {

namespace {

using Json = EvalResults::Json;

struct EvalOptions {
  EvalRequest request;
  std::string policies, budgets, lengths = "512,1024", depths = "0,25,50,75,100";
  std::string progress = "bar";
};

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> items(1);
  for (const char c : text) {
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

/// Numbers between two limits, separated by commas.
template <typename Number>
std::vector<Number> numbers_of(const char* option, const std::string& text, Number least,
                               Number most) {
  std::vector<Number> numbers;
  for (const std::string& item : comma_list(text)) {
    Number number{};
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    // Written so that what is not a number is refused as well.
    if (error != std::errc() || end != item.data() + item.size() ||
        !(number >= least && number <= most)) {
      throw UsageError(fmt::format("{} {}: '{}' is not a number from {} to {}", option, text, item,
                                   least, most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::string run_text(const Json& run) {
  std::string text = fmt::format("{} at {}, {} tokens", run["policy"].get<std::string>(),
                                 run["budget"].get<std::string>(), run["tokens"].get<int>());
  if (run.contains("depth")) {
    text += fmt::format(", depth {:g} %: {}", run["depth"].get<double>(),
                        run["correct"].get<bool>() ? "found" : "missed");
  } else {
    text += fmt::format(": loss {:.4f}", run["loss"].get<double>());
  }
  return text;
}

EvalReport report_for(const std::string& kind) {
  EvalReport report;
  report.note = [kind](const std::string& note) {
    if (kind != "json") {
      fmt::print(stderr, "kvloupe-capture: {}\n", note);
    } else {
      fmt::print("{}\n", Json{{"event", "note"}, {"text", note}}.dump());
    }
  };
  if (kind == "json") {
    report.run = [](long done, long total, const Json& run) {
      const Json line{{"event", "run"}, {"done", done}, {"total", total}, {"run", run}};
      fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
      std::fflush(stdout);
    };
  } else if (kind == "bar" && ::isatty(STDERR_FILENO) == 1) {
    report.run = [](long done, long total, const Json& run) {
      fmt::print(stderr, "\r[{}/{}] {}\x1B[K", done, total, run_text(run));
      if (done == total) fmt::print(stderr, "\r\x1B[K");
    };
  }
  return report;
}

/// The summary as a table: a line per policy and budget.
void print_summary(const Json& summary) {
  for (const Json& line : summary) {
    fmt::print("{:<32} {:>8}  {:>4} runs", line["policy"].get<std::string>(),
               line["budget"].get<std::string>(), line["runs"].get<int>());
    if (line.contains("accuracy")) {
      fmt::print("  {:5.1f} % found", 100.0 * line["accuracy"].get<double>());
    }
    if (line.contains("loss")) {
      fmt::print("  perplexity {:.3f}, loss {:+.4f}", line["perplexity"].get<double>(),
                 line["loss_difference"].get<double>());
    }
    if (line.contains("kl") && line["kl"].is_number()) {
      fmt::print(", KL {:.4f}, same top token {:.1f} %", line["kl"].get<double>(),
                 100.0 * line["same_top1"].get<double>());
    }
    fmt::print("\n");
  }
}

int run_eval(EvalOptions options) {
  EvalRequest& request = options.request;
  if (request.task == EvalTask::perplexity && request.compression == Compression::context_only) {
    throw UsageError(
        "--compression context-only: perplexity does not ask a question; leave the option out");
  }
  request.policies = parse_policy_list(options.policies);
  for (const std::string& text : comma_list(options.budgets)) {
    request.budgets.push_back(parse_budget(text));
  }
  request.lengths = numbers_of<int>("--lengths", options.lengths, 2, 1 << 24);
  request.depths = numbers_of<double>("--depths", options.depths, 0.0, 100.0);
  check_output(request.output, request.model,
               {request.needle_template.value_or(""), request.filler.value_or("")});
  const EvalReport report = report_for(options.progress);
  Progress progress;
  const InterruptGuard guard(progress);
  try {
    const EvalResults results = evaluate(request, progress, report);
    if (options.progress == "bar") print_summary(eval_summary(results.runs()));
  } catch (const Cancelled&) {
    throw WorkError("stopped; the finished runs are in " + request.output +
                    ": run the same command again to continue");
  }
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "eval", "Measure policies in the model's own cache: needles found, perplexity");
  const auto options = std::make_shared<EvalOptions>();
  EvalRequest& request = options->request;
  add_model_options(*verb, request.model);
  const std::map<std::string, EvalTask> tasks{{"needle", EvalTask::needle},
                                              {"perplexity", EvalTask::perplexity}};
  verb->add_option("--task", request.task,
                   "needle: find a number in a long text; perplexity: predict a text")
      ->required()
      ->transform(CLI::Transformer(tasks))
      ->option_text("needle|perplexity");
  verb->add_option("--policies", options->policies, "Policies, such as h2o+recent(50%),keydiff")
      ->required();
  verb->add_option("--budgets", options->budgets, "Counts or shares of the prompt: 10%,25%,128")
      ->required();
  verb->add_option("-o,--output", request.output,
                   "The results (JSON); runs that the file already has are kept, so a stopped "
                   "evaluation continues")
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
  const std::map<std::string, Compression> compressions{
      {"regular", Compression::regular}, {"context-only", Compression::context_only}};
  verb->add_option("--compression", request.compression,
                   "regular: evict after every block; context-only: evict only before the question")
      ->transform(CLI::Transformer(compressions))
      ->option_text("regular|context-only");
  const std::map<std::string, Positions> positions{{"original", Positions::original},
                                                   {"compact", Positions::compact}};
  verb->add_option("--positions", request.positions,
                   "Rotary positions of cached entries: those of their tokens, or their place in "
                   "the cache (not beyond a model's sliding window)")
      ->transform(CLI::Transformer(positions))
      ->option_text("original|compact");
  verb->add_option("--template", request.needle_template,
                   "Needle, question and words (JSON); default: needle.json in the model's folder, "
                   "or else a general template");
  verb->add_option("--filler", request.filler, "A text or prompt file to fill prompts with");
  verb->add_option("--block", request.block, "Prompt tokens that are run at once")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  add_word_option(*verb, "--probe", request.probe, probe_words(),
                  "How the context is read a second time for policies that need this (kvzip, "
                  "kvcompose), with --block as long as the prompt: repeat asks the model to repeat "
                  "the context, reread reads it again as it is");
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
  verb->callback([options, &action] { action = [options] { return run_eval(*options); }; });
}

}  // namespace kvloupe::capture_cli::eval_verb
