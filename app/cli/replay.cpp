// kvloupe replay: a policy applied to a trace, as a table or as JSON.

#include "analysis/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/explain.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay_json.h"
#include "analysis/replay/typed_values.h"
#include "app/cli/commands.h"
#include "app/cli/shared_options.h"
#include "app/plot/printable.h"

namespace kvloupe::cli::replay_verb {

namespace {
/// The options of `replay --explain`.
struct ExplainOptions {
  int token = 0;
  std::vector<int> layers, heads;  // empty: all
  bool last_step_only = false;
  std::string json;  // file or "-"; empty: text on standard output
};

using Json = nlohmann::ordered_json;

const char* fate_word(Fate fate) {
  // In the order of the enum.
  static constexpr const char* kNames[] = {"evicted", "by_score",     "by_second_stage", "recent",
                                           "sink",    "window",       "merged",          "held",
                                           "dropped", "beyond_window"};
  return kNames[static_cast<std::size_t>(fate)];
}

Json to_json(const StepReason& reason) {
  Json merges = Json::array();
  for (const Merge& merge : reason.merges) {
    merges.push_back({{"into", merge.into}, {"from", merge.from}, {"weights", merge.weights}});
  }
  return {{"step", reason.step},
          {"cache_size", reason.cache_size},
          {"retained", reason.retained},
          {"fate", reason.decided || reason.fate == Fate::beyond_window ? fate_word(reason.fate)
                                                                        : "nothing_evicted"},
          {"score", reason.score},
          {"rank", reason.rank > 0 ? Json(reason.rank) : Json()},
          {"threshold", reason.threshold},
          {"margin", reason.margin},
          {"ties", reason.ties},
          {"merged", std::move(merges)}};
}

std::string life(const TokenExplanation& explanation) {
  std::string text = fmt::format("entered at step {}", explanation.entered);
  if (explanation.left < 0) return text + ", stays";
  return text + fmt::format(", {} at step {}", leaving_text(explanation.steps.back().fate),
                            explanation.left);
}

std::vector<int> all_or(const std::vector<int>& chosen, int count) {
  if (!chosen.empty()) return chosen;
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Replays each selected head, keeping its scores, and explains at each step why the token is kept
/// or evicted. Throws what replay() and explain() throw.
void run_explain(const Trace& trace, const std::string& name, ReplayRequest request,
                 const ExplainOptions& options) {
  constexpr std::size_t kOneLayer = 1;  // the cache always holds the last layer read
  if (options.token < 0 || options.token >= trace.length()) {
    throw UsageError("token " + std::to_string(options.token) + ": the trace has tokens 0 to " +
                     std::to_string(trace.length() - 1));
  }
  LayerStatesCache states(kOneLayer);
  request.states = &states;
  request.metrics = false;
  OutputFile out(options.json.empty() ? "-" : options.json);
  Json document;
  for (const int layer : all_or(options.layers, trace.model().num_layers)) {
    if (!trace.attends(layer)) continue;
    for (const int head_index : all_or(options.heads, trace.layer_model(layer).num_kv_heads)) {
      request.layers = {layer};
      request.scores_layer = layer;
      request.scores_head = head_index;
      Progress progress;
      const Replay result = replay(trace, request, progress);
      TokenExplanation explanation =
          explain(result, *result.find(layer, head_index), options.token);
      const std::string whole_life = life(explanation);
      if (options.last_step_only) {
        explanation.steps.erase(explanation.steps.begin(), explanation.steps.end() - 1);
      }
      if (document.is_null()) {
        const auto& texts = trace.tokens().text;
        document = {{"trace", name},         {"policy", result.policy}, {"budget", result.budget},
                    {"block", result.block}, {"notes", result.notes},   {"token", options.token},
                    {"heads", Json::array()}};
        if (options.json.empty()) {
          out.write(fmt::format("{}: {}, budget {}, block {}\n", name, result.policy, result.budget,
                                result.block));
          for (const std::string& note : result.notes) out.write("note: " + note + "\n");
          out.write(fmt::format(
              "token {}{}\n", options.token,
              texts.empty()
                  ? ""
                  : " '" + figure::printable(texts[static_cast<std::size_t>(options.token)]) +
                        "'"));
        }
      }
      if (options.json.empty()) {
        out.write(fmt::format("layer {}, head {}: {}\n", layer, head_index, whole_life));
        for (const StepReason& reason : explanation.steps) {
          out.write(
              fmt::format("  step {:>4}  {}\n", reason.step, reason_text(explanation, reason)));
        }
        continue;
      }
      Json steps = Json::array();
      for (const StepReason& reason : explanation.steps) steps.push_back(to_json(reason));
      document["heads"].push_back(
          {{"layer", layer},
           {"head", head_index},
           {"entered", explanation.entered},
           {"left", explanation.left >= 0 ? Json(explanation.left) : Json()},
           {"steps", std::move(steps)}});
    }
  }
  if (!options.json.empty()) {
    out.write(document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  out.finish();
}

struct Options : ReplayOptions {
  std::string layers, heads;
  std::string steps = "all";
  std::vector<std::string> measures;  // on request
  std::optional<int> explain;
};

constexpr const char* kNoMeasures = "none";  // of --measures
constexpr const char* kMass = "retained_mass";
constexpr const char* kPerturbation = "perturbation_l1";
constexpr const char* kBound = "bound_l1";
constexpr const char* kLogDeterminant = "log_pseudo_determinant";

/// The replay that the table shows. With `last_step_only`, only the last step is measured, which
/// saves the memory and the time of measuring all steps of a long trace.
Replay replay_for_table(const Trace& trace, ReplayRequest request, bool last_step_only) {
  Progress progress;
  if (!last_step_only || !request.metrics) return replay(trace, request, progress);
  request.metrics = false;
  Replay replayed = replay(trace, request, progress);
  MeasureRequest wanted{.measures = {kMass, kPerturbation, kBound, kLogDeterminant},
                        .steps = {static_cast<int>(replayed.blocks.size()) - 1}};
  return measure_replay(trace, replayed, wanted, progress);
}

/// The mean over the query heads, as text; "-" where it is not a number.
std::string mean_text(const StepRecord& record, const char* measure) {
  const double mean = measure_at(require_measure(measure), record);
  return std::isfinite(mean) ? fmt::format("{:.4g}", mean) : "-";
}

/// The policy's change in the whole model, and whose queries were asked.
struct Whole {
  Asked asked = Asked::later;
  AskedReplay answer;
};

std::string whole_text(const Whole& whole) {
  return fmt::format(
      "for the {} {}, each against what the cache holds when it comes: change of all heads "
      "together {:.4g}, worst layer {:.4g} (layer {})\n",
      whole.asked == Asked::later
          ? fmt::format("{} later", whole.answer.queries.size())
          : fmt::format("{}'s {}", asked_name(whole.asked), whole.answer.queries.size()),
      whole.answer.queries.size() == 1 ? "query" : "queries", whole.answer.residual_change,
      whole.answer.worst_layer_error, whole.answer.worst_layer());
}

/// Nothing where the trace does not give it, or not all layers were replayed.
std::optional<Whole> ask_whole(const Trace& trace, const Replay& replay) {
  Whole whole{asked_first(trace.tokens(), trace.run()), {}};
  Progress progress;
  whole.answer = ask(trace, replay, whole.asked, {}, progress);
  if (std::isnan(whole.answer.residual_change)) return std::nullopt;
  return whole;
}

void write_table(const Replay& replay, const std::optional<Whole>& whole,
                 const std::optional<HeldBytes>& held, const Options& options,
                 const ReplayJsonOptions& shown, OutputFile& out) {
  out.write(fmt::format("{}: {}, budget {}, block {}, {} steps\n", options.trace, replay.policy,
                        replay.budget, replay.block, replay.blocks.size()));
  if (replay.compression == Compression::context_only) {
    out.write(fmt::format("the policy acts up to token {} and no more\n", replay.acts_until - 1));
  }
  for (const std::string& note : replay.notes) out.write("note: " + note + "\n");
  if (held) out.write("the caches hold " + held_bytes_text(*held) + "\n");
  if (whole) out.write(whole_text(*whole));
  out.write(
      "for the last query of each step, mean over the query heads: retained attention mass, output "
      "perturbation and its bound (L1)\n");
  out.write(fmt::format("{:>5} {:>5} {:>5} {:>7} {:>7} {:>5} {:>10} {:>12} {:>12} {:>9}\n", "layer",
                        "head", "step", "cache", "kept", "ties", "mass", "perturbation", "bound",
                        "log det"));
  for (const HeadReplay& head : replay.heads) {
    if (!shown.heads.empty() &&
        std::find(shown.heads.begin(), shown.heads.end(), head.head) == shown.heads.end()) {
      continue;
    }
    const std::size_t first = shown.last_step_only ? head.steps.size() - 1 : 0;
    for (std::size_t step = first; step < head.steps.size(); ++step) {
      const StepRecord& record = head.steps[step];
      out.write(fmt::format("{:>5} {:>5} {:>5} {:>7} {:>7} {:>5} {:>10} {:>12} {:>12} {:>9.2f}\n",
                            head.layer, head.head, step, record.cache_size, record.retained,
                            record.ties, mean_text(record, kMass), mean_text(record, kPerturbation),
                            mean_text(record, kBound),
                            measure_at(require_measure(kLogDeterminant), record)));
    }
  }
}

int run_replay(const Options& options) {
  std::optional<Trace> opened;
  ReplayRequest request = options.open(opened);
  const Trace& trace = *opened;
  // --layers and --heads filter the output; a layer that is not printed needs no computing, because
  // no layer's replay depends on another's.
  if (!options.layers.empty()) {
    request.layers = parse_index_list(options.layers, "layer", trace.model().num_layers);
  }
  ReplayJsonOptions shown;
  if (!options.heads.empty()) {
    shown.heads = parse_index_list(options.heads, "head", trace.most_heads());
  }
  shown.last_step_only = options.steps == "last";
  request.metrics = options.measures != std::vector<std::string>{kNoMeasures};
  for (const std::string& name : options.measures) {
    if (name != kNoMeasures) {
      if (name != "all") require_measure(name);
    } else if (request.metrics) {
      throw UsageError("--measures none: nothing else may stand beside none");
    }
  }
  if (request.metrics) request.measures = options.measures;

  if (options.explain) {
    const ExplainOptions what = {*options.explain, request.layers, shown.heads,
                                 shown.last_step_only, options.json};
    run_explain(trace, options.trace, std::move(request), what);
    return 0;
  }
  if (options.json.empty()) {
    const Replay result = replay_for_table(trace, request, shown.last_step_only);
    OutputFile out("-");
    write_table(result, request.metrics ? ask_whole(trace, result) : std::nullopt,
                held_bytes(trace, result), options, shown, out);
    out.finish();
    return 0;
  }
  Progress progress;
  OutputFile out(options.json);  // first: an unwritable target is known before the work
  const Replay result = replay(trace, request, progress);
  shown.bytes = held_bytes(trace, result);
  write_replay_json(result, options.trace, shown, [&](std::string_view text) { out.write(text); });
  out.finish();
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] =
      Verb<Options>(app, action, "replay", "Apply a policy to the states of a trace", run_replay);
  options->add_to(*verb);
  verb->add_option("--layers", options->layers, "Layers to print, such as 0-3,7");
  verb->add_option("--heads", options->heads, "Key-value heads to print, such as 0,1");
  verb->add_option("--steps", options->steps, "Steps to print: all or last")
      ->check(CLI::IsMember({"all", "last"}));
  verb->add_option("--measures", options->measures,
                   "With --json: expensive measures to compute too: names, or all; none: measure "
                   "nothing (saves memory on long traces)")
      ->delimiter(',');
  verb->add_option(
      "--explain", options->explain,
      "Explain at each step why this token is kept or evicted: score, rank, threshold");
}

}  // namespace kvloupe::cli::replay_verb
