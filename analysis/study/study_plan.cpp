#include "analysis/study/study_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/model_files.h"

namespace kvloupe {

namespace {
constexpr int kRunBlock = 128;  // tokens per step of a run, where the study does not say
constexpr double kMostItems = 1'000'000;

/// A short study file can ask for more than any machine could hold.
void check_size(const Study& study) {
  const auto size = [](const auto& list) { return static_cast<double>(list.size()); };
  const double settings = size(study.policies) * size(study.budgets) * size(study.blocks);
  double items = size(study.traces) * settings;
  for (const ModelTask& task : study.tasks) {
    const double prompts =
        task.lengths.empty() ? size(study.prompts)
                             : size(task.lengths) * task.samples * std::max(1.0, size(task.depths));
    items += prompts * (settings + size(study.blocks));
  }
  if (items <= kMostItems) return;
  throw FileError(study.path.string(),
                  fmt::format("asks for {:.0f} replays and runs; a study has at most {:.0f}: make "
                              "several of it",
                              items, kMostItems));
}

/// Why the numbers of two traces do not average, with what each has; empty where they do.
std::string difference(const Trace& a, const Trace& b) {
  const auto differ = [](const char* what, const std::string& one, const std::string& other) {
    return fmt::format("have different {} ({}; {})", what, in_one_line(one, 100),
                       in_one_line(other, 100));
  };
  const auto model = [](const ModelInfo& of) {
    return fmt::format("{} of {} layers, {} heads", of.name, of.num_layers, of.num_kv_heads);
  };
  const std::string one = stored_model_fingerprint(a.path());
  const std::string two = stored_model_fingerprint(b.path());
  const std::string m = model(a.model()), n = model(b.model());
  if (one.empty() || two.empty() ? m != n : one != two)
    return m != n ? differ("models", m, n) : differ("models", m + ", " + one, n + ", " + two);
  const RunInfo &r = a.run(), &s = b.run();
  if (r.dtype != s.dtype) return differ("precision", r.dtype, s.dtype);
  // A budget of the same share is another number of entries in a prompt of another length.
  const double share = 1.0 * r.budget / r.prompt_length, other = 1.0 * s.budget / s.prompt_length;
  const bool same_budget =
      r.budget == s.budget ||
      std::abs(share - other) <= 1.0 / std::min(r.prompt_length, s.prompt_length);
  if (r.policy == s.policy && same_budget) return {};
  const auto cache = [](const RunInfo& run) {
    return run.closed_loop() ? fmt::format("{} with {} entries", run.policy, run.budget)
                             : std::string("full");
  };
  return differ("caches", cache(r), cache(s));
}

/// Fills in what only the trace knows.
void settle(StudyItem& item, const Trace& trace, const PolicySpec& policy, const Budget& budget,
            int block, std::optional<Compression> compression) {
  const std::vector<Block> steps = replay_blocks(trace, block, compression);
  item.entries = budget.resolve(trace.run().prompt_length);
  check_limits(policy, trace.model(), item.entries, trace.length());
  check_run(policy, run_shape(trace, item.entries, compression));
  item.block = replay_block(trace, block);
  item.compression = compression_name(replay_compression(trace, compression));
  item.cost = replay_cost(trace.model(), steps, item.entries);
}
/// The prompts of a task.
std::vector<StudySource> sources_of(const Study& study, const ModelTask& task,
                                    const std::string& model, PromptIdentities& identities) {
  std::vector<StudySource> sources;
  const auto add = [&](StudySource source) {
    source.task = task.task;
    source.needles = task.needles;
    if (task.task == kAnswerTask) source.answer_tokens = task.tokens;
    source.seed = task.seed;
    sources.push_back(std::move(source));
  };
  if (task.lengths.empty()) {
    for (const PromptPlace& prompt : task.prompts.empty() ? study.prompts : task.prompts) {
      StudySource source;
      source.name = task.task + ": " + prompt.name;
      const std::string& identity = identities.of(prompt);
      if (!identity.empty() && !model.empty()) {
        source.identity = model + " " + identity;
        source.earlier_identity = model + " " + earlier_prompt_identity(prompt);
      }
      source.prompt = prompt;
      add(std::move(source));
    }
  }
  for (const int length : task.lengths) {
    for (int sample = 0; sample < task.samples; ++sample) {
      const auto generated = [&](double depth, const std::string& at_depth) {
        StudySource source;
        source.name =
            fmt::format("{}: {} tokens{}, sample {}", task.task, length, at_depth, sample);
        // The generator follows from these and the tokenizer.
        if (!model.empty())
          source.identity =
              fmt::format("{} seed {} needles {}{}", model, task.seed, task.needles, task.made_of);
        source.length = length;
        source.depth = depth;
        source.sample = sample;
        add(std::move(source));
      };
      if (task.depths.empty()) generated(0.0, "");
      for (const double depth : task.depths) generated(depth, fmt::format(", depth {} %", depth));
    }
  }
  return sources;
}

/// A guess at the cost of a run, in units that compare runs of one study: tokens read × entries
/// read by each.
double run_cost(const StudySource& source, const Budget* budget) {
  constexpr double kBytesOfToken = 4.0;
  constexpr double kMostTokens = 1 << 24;
  double tokens = source.length;
  if (source.length == 0) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(source.prompt.path, error);
    tokens = error || source.prompt.line >= 0 ? 1.0 : static_cast<double>(bytes) / kBytesOfToken;
  }
  tokens = std::clamp(tokens, 1.0, kMostTokens);
  return tokens * (budget == nullptr ? tokens + 1.0 : budget->resolve(static_cast<int>(tokens)));
}

void plan_runs(const Study& study, StudyPlan& plan) {
  if (study.tasks.empty()) return;
  Progress progress;
  const std::string model = model_fingerprint(study.model_path, progress);
  PromptIdentities identities;
  auto first_measure = static_cast<int>(study.measures.size());
  for (const ModelTask& task : study.tasks) {
    for (StudySource& source : sources_of(study, task, model, identities)) {
      const int number = static_cast<int>(plan.sources.size());
      const auto add = [&](const std::string& policy, const std::string& budget, int block,
                           double cost) {
        StudyItem item{
            .trace = number,
            .policy = policy,
            .budget = budget,
            .block_word = block_text(block),
            .block = block == 0 ? kRunBlock : block,
            .first_measure = first_measure,
            .compression = compression_name(study.compression.value_or(Compression::regular)),
            .cost = cost};
        if (model.empty()) {
          item.problem = in_one_line(study.model_path.string(), 200) +
                         ": has no config.json or no weights that can be read";
        } else if (source.identity.empty()) {
          item.problem = in_one_line(source.prompt.path.string(), 200) + ": cannot be read";
        }
        plan.items.push_back(std::move(item));
      };
      for (const int block : study.blocks) {
        if (task.task != kDriftTask) add(kFullCache, kFullCache, block, run_cost(source, nullptr));
        for (const PolicySpec& policy : study.policies) {
          if (keeps_everything(policy)) continue;
          for (const Budget& budget : study.budgets)
            add(policy.text(), budget.text(), block, run_cost(source, &budget));
        }
      }
      plan.sources.push_back(std::move(source));
    }
    first_measure += static_cast<int>(
        std::count_if(task_measures().begin(), task_measures().end(),
                      [&](const StudyMeasure& one) { return one.task == task.task; }));
  }
}
}  // namespace

int StudyPlan::first_of_context(int source) const {
  if (source >= std::ssize(sources)) return source;
  const auto at = [&](int place) -> const StudySource& {
    return sources.at(static_cast<std::size_t>(place));
  };
  const std::string context = context_of(at(source).name);
  if (context == at(source).name) return source;
  while (source > 0 && context_of(at(source - 1).name) == context) --source;
  return source;
}

double replay_cost(const ModelInfo& model, const std::vector<Block>& steps, int budget) {
  double products = 0.0;
  for (const Block& step : steps) {
    const int queries = step.end - step.first;
    const int present = std::min(step.end, budget + queries);
    products += (queries + 1.0) * present;
  }
  return products * model.caches() * model.num_heads * model.head_dim;
}

StudyPlan plan_study(const Study& study) {
  check_size(study);
  StudyPlan plan;
  std::unique_ptr<Trace> first;
  std::string first_name;
  for (int t = 0; t < static_cast<int>(study.traces.size()); ++t) {
    const StudyTrace& file = study.traces[static_cast<std::size_t>(t)];
    std::unique_ptr<Trace> trace;
    std::string problem;
    try {
      trace = std::make_unique<Trace>(file.path);
    } catch (const FileError& error) {
      problem = in_one_line(error.what(), 400);
    }
    plan.sources.push_back({file.name, trace ? trace->identity() : ""});
    for (const PolicySpec& policy : study.policies) {
      const PolicySpec computed = study.computed(policy);
      for (const Budget& budget : study.budgets) {
        for (const int block : study.blocks) {
          StudyItem item{.trace = t,
                         .policy = policy.text(),
                         .budget = budget.text(),
                         .block_word = block_text(block),
                         .problem = problem};
          try {
            if (trace) settle(item, *trace, computed, budget, block, study.compression);
          } catch (const UsageError& error) {
            throw FileError(study.path.string(), in_one_line(file.name, 200) + " with " +
                                                     item.policy + ", budget " + item.budget +
                                                     ", block " + item.block_word + ": " +
                                                     in_one_line(error.what(), 400));
          }
          plan.items.push_back(std::move(item));
        }
      }
    }
    if (!first) {
      first = std::move(trace);
      first_name = file.name;
    } else if (const std::string other = trace ? difference(*first, *trace) : ""; !other.empty()) {
      throw FileError(study.path.string(),
                      fmt::format("{} and {} {}, so no mean is over both; make a study of each",
                                  in_quotes(first_name, 200), in_quotes(file.name, 200), other));
    }
  }
  plan_runs(study, plan);
  return plan;
}

}  // namespace kvloupe
