#include "app/cli/explain.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/record/layer_states.h"
#include "analysis/replay/explain.h"
#include "app/plot/printable.h"

namespace kvloupe::cli {

namespace {
using Json = nlohmann::ordered_json;

const char* fate_word(Fate fate) {
  switch (fate) {
    case Fate::evicted:
      return "evicted";
    case Fate::by_score:
      return "by_score";
    case Fate::by_second_stage:
      return "by_second_stage";
    case Fate::recent:
      return "recent";
    case Fate::sink:
      return "sink";
    case Fate::window:
      return "window";
    case Fate::merged:
      return "merged";
    case Fate::held:
      return "held";
    case Fate::dropped:
      return "dropped";
    case Fate::beyond_window:
      break;
  }
  return "beyond_window";
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

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
          {"score", number(reason.score)},
          {"rank", reason.rank > 0 ? Json(reason.rank) : Json()},
          {"threshold", number(reason.threshold)},
          {"margin", number(reason.margin)},
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
}  // namespace

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

}  // namespace kvloupe::cli
