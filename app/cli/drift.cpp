// kvloupe drift FULL CLOSED [--json OUT|-]: a closed-loop run beside the run with the full cache.

#include "analysis/replay/drift.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/base/system/output_file.h"
#include "app/cli/commands.h"

namespace kvloupe::cli::drift_verb {

namespace {
using json = nlohmann::ordered_json;

const char* kind_name(DivergenceKind kind) {
  switch (kind) {
    case DivergenceKind::exact:
      return "exact";
    case DivergenceKind::top:
      return "lower bound";
    case DivergenceKind::none:
      break;
  }
  return "none";
}

std::string as_json(const Drift& drift, const Trace& full, const Trace& closed) {
  json out{{"full", full.path().string()},
           {"closed", closed.path().string()},
           {"policy", drift.policy},
           {"budget", drift.budget},
           {"block", closed.run().block_size},
           {"positions", drift.positions},
           {"first_eviction", drift.first_eviction},
           {"notes", drift.notes}};
  out["layers"] = json::array();
  for (const LayerDrift& layer : drift.layers) {
    out["layers"].push_back({{"layer", layer.layer},
                             {"query_distance", layer.query},
                             {"key_distance", layer.key},
                             {"value_distance", layer.value},
                             {"output_distance", layer.output}});
  }
  out["heads"] = json::array();
  for (const HeadDrift& head : drift.heads) {
    out["heads"].push_back({{"layer", head.layer},
                            {"head", head.head},
                            {"mean_jaccard", Drift::mean_jaccard(head, drift.first_eviction)},
                            {"jaccard", head.jaccard}});
  }
  json kl = json::array(), same = json::array(), loss = json::array();
  for (const TokenDrift& token : drift.tokens) {
    kl.push_back(token.divergence);
    same.push_back(token.same_top1);
    loss.push_back(token.loss_difference);
  }
  out["tokens"] = {{"kl_kind", kind_name(drift.divergence_kind)},
                   {"mean_kl", drift.mean_divergence()},
                   {"same_top1_share", drift.same_top1_share()},
                   {"mean_loss_difference", drift.mean_loss_difference()},
                   {"kl", std::move(kl)},
                   {"same_top1", std::move(same)},
                   {"loss_difference", std::move(loss)}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string percent(double distance) {
  return std::isfinite(distance) ? fmt::format("{:.2f} %", 100.0 * distance) : "unknown";
}

std::string as_text(const Drift& drift) {
  std::string out =
      fmt::format("{}, budget {}, {} positions, {} steps, evicting from step {}\n", drift.policy,
                  drift.budget, drift.positions, drift.blocks.size(), drift.first_eviction);
  out +=
      "\ndistance from the full run: √(Σ‖x − x'‖² / Σ‖x‖²); retained sets compared with the "
      "replay's\n";
  out += fmt::format("{:>5} {:>10} {:>10} {:>10} {:>10}   {}\n", "layer", "queries", "keys",
                     "values", "outputs", "mean Jaccard, per head");
  for (const LayerDrift& layer : drift.layers) {
    out += fmt::format("{:>5} {:>10} {:>10} {:>10} {:>10}  ", layer.layer, percent(layer.query),
                       percent(layer.key), percent(layer.value), percent(layer.output));
    for (const HeadDrift& head : drift.heads) {
      if (head.layer != layer.layer) continue;
      out += fmt::format(" {:.3f}", Drift::mean_jaccard(head, drift.first_eviction));
    }
    out += "\n";
  }
  if (!drift.tokens.empty()) {
    out += fmt::format(
        "\nnext tokens: KL(full, closed) {:.4f} nats{}, same most probable token {:.1f} %, loss "
        "{:+.4f} nats\n",
        drift.mean_divergence(), drift.divergence_kind == DivergenceKind::top ? " at least" : "",
        100.0 * drift.same_top1_share(), drift.mean_loss_difference());
  }
  for (const std::string& note : drift.notes) out += "note: " + note + "\n";
  return out;
}

struct Options {
  std::string full, closed, output;
};

int run(const Options& options) {
  refuse_own_input(options.output, {options.full, options.closed});
  const Trace full(options.full);
  const Trace closed(options.closed);
  Progress progress;
  const Drift drift = measure_drift(full, closed, progress);
  const std::string text = options.output.empty() ? as_text(drift) : as_json(drift, full, closed);
  write_whole_file(options.output.empty() ? "-" : options.output, text);
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<Options>(
      app, action, "drift",
      "Show how far a run with a policy in its cache differs from the run with the full cache",
      run);
  verb->add_option("FULL", options->full, "The trace of the run with the full cache")->required();
  verb->add_option("CLOSED", options->closed, "The closed-loop trace of the same tokens")
      ->required();
  verb->add_option("--json", options->output, "Write JSON to this file, - for standard output");
}

}  // namespace kvloupe::cli::drift_verb
