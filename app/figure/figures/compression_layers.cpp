// The share of the seen entries that a policy leaves, layer by layer, for several traces.

#include <numeric>

#include "analysis/policy/kit/merging_sets.h"
#include "analysis/replay/compression.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::compression_layers_figure {

namespace {

/// The step that ends the prompt.
int prompt_end(const Trace& trace, const Replay& replay) {
  return static_cast<int>(replay.blocks.size()) - trace.run().generated - 1;
}

/// Only the merging sets of the prompt's keys: sets ÷ tokens of every layer.
std::vector<LayerCompression> sets_alone(const Trace& trace, double threshold, Progress& progress) {
  const int prompt = trace.run().prompt_length;
  std::vector<LayerCompression> layers;
  for (const int layer : trace.storing_layers()) {
    const int heads = trace.layer_model(layer).num_kv_heads;
    const int first = std::min(first_seen(prompt, trace.reach(layer)), prompt - 1);
    const int tokens = prompt - first;
    std::vector<int> candidates(static_cast<std::size_t>(tokens));
    std::iota(candidates.begin(), candidates.end(), first);
    LayerCompression one{layer, 0.0, 1.0, 0.0};
    for (int head = 0; head < heads; ++head) {
      progress.advance();
      const Matrix keys = trace.key(layer, head);
      MergingSets sets(view(keys), candidates, MergingSets::Link::anchor);
      const double share = static_cast<double>(sets.count(threshold)) / tokens;
      one.mean += share / heads;
      one.least = std::min(one.least, share);
      one.most = std::max(one.most, share);
    }
    layers.push_back(one);
  }
  return layers;
}

/// One line, and its band, of one trace.
struct Curve {
  std::string name;
  std::vector<LayerCompression> layers;
};

std::vector<Curve> curves_of_sets(const FigureInput& input, double threshold, Progress& progress) {
  std::vector<Curve> curves;
  long heads = 0;
  for (const auto& trace : input.traces) heads += trace->model().all_cache_heads();
  progress.set_total(heads);
  progress.count("heads", heads);
  for (const auto& trace : input.traces) {
    curves.push_back({trace->path().stem().string(), sets_alone(*trace, threshold, progress)});
  }
  return curves;
}

std::vector<Curve> curves_of_replays(const FigureInput& input, const PolicySpec& policy,
                                     Progress& progress) {
  std::vector<WantedReplay> wanted;
  for (std::size_t t = 0; t < input.traces.size(); ++t) {
    wanted.push_back({.policy = policy, .trace = t});
  }
  const auto replays = replays_of(input, wanted, progress);
  std::vector<Curve> curves;
  for (std::size_t t = 0; t < replays.size(); ++t) {
    const int step = std::max(0, prompt_end(*input.traces[t], *replays[t]));
    curves.push_back(
        {input.traces[t]->path().stem().string(), layer_compression(*replays[t], step)});
  }
  return curves;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const bool replayed = input.choice("of") == "replay";
  const double threshold = chosen_number(input, "threshold");
  const PolicySpec policy = chosen_policies(input).front();
  const std::vector<Curve> curves = replayed ? curves_of_replays(input, policy, progress)
                                             : curves_of_sets(input, threshold, progress);
  const bool several = curves.size() > 1;
  LinePanels::Panel panel;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const int look = static_cast<int>(i);
    LinePanels::Line line{
        .name = several ? curves[i].name : "", .look = look, .marked = true, .id = curves[i].name};
    LinePanels::Band band{.look = look};
    for (const LayerCompression& layer : curves[i].layers) {
      line.points.push_back({layer.layer + 0.5, 100.0 * layer.mean});
      band.x.push_back(layer.layer + 0.5);
      band.low.push_back(100.0 * layer.least);
      band.high.push_back(100.0 * layer.most);
    }
    panel.lines.push_back(std::move(line));
    if (!several) panel.bands.push_back(std::move(band));
  }
  panel.x = layer_names_axis(input.trace->model().num_layers);
  panel.y = y_axis("Entries left (%)", {0.0, 100.0});
  panel.y_grid = true;
  auto figure = line_panels("layer", "entries_left_percent", {std::move(panel)});
  figure->legend = several;
  figure->caption_text = fmt::format(
      "Entries that a layer still holds, as a share of the prompt, mean over its heads{}",
      several ? "" : " (band: minimum to maximum)");
  figure->caption_text += replayed
                              ? fmt::format(": after the prompt, {}.", policy.text())
                              : fmt::format(
                                    ": with all keys of the prompt in merging sets whose cosine to "
                                    "the opening key is above {}, without protected entries.",
                                    number_text(threshold));
  return figure;
}

/// The sets alone have a threshold and no policy; the replay is the other way round.
bool shows(std::string_view setting, const Choices& choices) {
  const bool of_policy = setting == "policies" || setting == "budget" || setting == "block";
  const bool replayed = choice(entry(), choices, "of") == "replay";
  return replayed ? setting != "threshold" : !of_policy;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "compression-layers", "Compression per layer",
      "Entries left per layer after merging, for several samples (KVMerger, figure 3b: the ratios "
      "of the layers are alike across samples; the first two and the last layer merge little): the "
      "merging sets of algorithm 1 at a threshold, without eviction",
      Topic::merging, compute);
  info.needs = {.comparison = true, .most_traces = 8};
  info.choices = {
      word_choice("of", "Of",
                  "The merging sets alone, over the whole prompt; or the replay of a policy, "
                  "which also evicts down to its budget",
                  {"sets", "replay"}),
      number_choice("threshold", "Threshold", "Cosine above which a key joins a set", "0.75", -1.0,
                    1.0),
      policies_choice("h2o+kvmerger")};
  info.shows = shows;
  return info;
}

}  // namespace kvloupe::figure::compression_layers_figure
