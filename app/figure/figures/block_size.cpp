// Effect of the prompt's block size on the kept tokens and on the output, side by side; and as a
// figure of its own on the kept tokens of more policies.

#include "analysis/base/text/unknown.h"
#include "analysis/math/numeric/statistics.h"
#include "analysis/policy/published.h"
#include "analysis/replay/measure/output_error.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::block_size_figure {

namespace {

/// What is compared: of each policy a replay of each block size.
struct Compared {
  std::vector<PolicySpec> policies;
  std::vector<int> blocks;  // the first is the whole prompt
  int generated = 0;        // tokens after the prompt
};

Compared compared(const FigureInput& input) {
  const int prompt = input.trace->run().prompt_length;
  Compared what{chosen_policies(input), {prompt}, input.trace->run().generated};
  for (const int block : chosen_blocks(input)) {
    if (block < prompt) what.blocks.push_back(block);
  }
  return what;
}

/// The number of a replay beside that of the whole prompt as one block.
using Number = std::function<double(const Replay& whole, const Replay& replay)>;

LinePanels::Panel panel_of(const Compared& what, const Replays& replays, const char* whole_name,
                           const Number& number) {
  LinePanels::Panel panel;
  std::vector<std::string> names;
  for (std::size_t b = 1; b < what.blocks.size(); ++b)
    names.push_back(format_count(what.blocks[b]));
  names.emplace_back(whole_name);
  for (std::size_t p = 0; p < what.policies.size(); ++p) {
    LinePanels::Line line{
        .name = what.policies[p].text(), .look = static_cast<int>(p), .marked = true};
    const auto* const own = &replays[p * what.blocks.size()];
    for (std::size_t b = 0; b < what.blocks.size(); ++b) {
      const auto& replay = own[b + 1 < what.blocks.size() ? b + 1 : 0];
      line.points.push_back(
          {static_cast<double>(b) + 0.5, replay ? number(*own[0], *replay) : kUnknown});
    }
    panel.lines.push_back(std::move(line));
  }
  panel.x = name_axis(std::move(names), "Block size (tokens)");
  panel.y_grid = true;
  return panel;
}

/// Overlap of the tokens that two replays retain once the prompt is over, mean over the heads, in
/// percent.
template <typename Share>
double mean_overlap(const Replay& a, const Replay& b, int generated, const Share& share) {
  const auto kept = [&](const Replay& replay, std::size_t head) {
    const int step = std::max(static_cast<int>(replay.blocks.size()) - generated - 1, 0);
    return replay.retained_at(replay.heads[head], step);
  };
  double sum = 0.0;
  for (std::size_t h = 0; h < a.heads.size(); ++h) sum += 100.0 * share(kept(a, h), kept(b, h));
  return sum / static_cast<double>(a.heads.size());
}

/// The error over the queries that the block sizes share: the prompt's last and those after it.
double error_of(const Replay& replay, int generated) {
  SquaredError sum;
  for (const HeadReplay& head : replay.heads) {
    const std::size_t count = std::min(head.steps.size(), static_cast<std::size_t>(generated) + 1);
    const SquaredError own = squared_error(head, head.steps.size() - count);
    sum.error += own.error;
    sum.output += own.output;
  }
  return sum.share();
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Compared what = compared(input);
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : what.policies) {
    for (const int block : what.blocks) {
      WantedReplay one{.policy = policy, .block = block};
      one.measures = {"output_norm_l2", "head_error_l2"};
      const int steps =
          static_cast<int>(replay_blocks(*input.trace, block, input.compression).size());
      for (int step = std::max(steps - what.generated - 1, 0); step < steps; ++step)
        one.steps.push_back(step);
      wanted.push_back(std::move(one));
    }
  }
  return figure_of_replays(input, wanted, progress, [&](const Replays& replays) {
    LinePanels::Panel tokens =
        panel_of(what, replays, "all", [&](const Replay& whole, const Replay& replay) {
          return mean_overlap(whole, replay, what.generated, [](const auto& a, const auto& b) {
            return set_overlap(a, b).jaccard();
          });
        });
    ValueRange range;
    LinePanels::Panel error =
        panel_of(what, replays, "all", [&](const Replay&, const Replay& replay) {
          const double value = error_of(replay, what.generated);
          range.add(value);
          return value;
        });
    tokens.title = "Kept tokens";
    tokens.y = y_axis("Overlap with one block (%)", {0.0, 100.0});
    error.title = "Output error";
    error.y = y_axis("Σ‖o − o′‖² / Σ‖o‖²", range.from_zero());
    auto figure = line_panels("block", "value", {std::move(tokens), std::move(error)});
    figure->legend = true;
    figure->caption_text = fmt::format(
        "Comparison of block sizes, N = {}: a, overlap (Jaccard) of the prompt's tokens kept with "
        "this block size and those kept with the prompt as one block, mean over all heads; b, "
        "output error Σ‖o − o′‖² / Σ‖o‖² of the prompt's last query and those after it, all heads "
        "of all layers (normalisation ours).",
        format_count(replays.front()->budget));
    return figure;
  });
}

std::unique_ptr<const Figure> compute_overlap(const FigureInput& input, Progress& progress) {
  const Compared what = compared(input);
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : what.policies) {
    for (const int block : what.blocks) wanted.push_back({.policy = policy, .block = block});
  }
  return figure_of_replays(input, wanted, progress, [&](const Replays& replays) {
    LinePanels::Panel panel =
        panel_of(what, replays, "∞", [&](const Replay& whole, const Replay& replay) {
          return mean_overlap(whole, replay, what.generated, [](const auto& a, const auto& b) {
            const double most = static_cast<double>(std::max(a.size(), b.size()));
            return most == 0.0 ? 1.0 : static_cast<double>(set_overlap(a, b).both) / most;
          });
        });
    panel.y = y_axis("Overlap with B = ∞ (%)", {0.0, 100.0});
    auto figure = line_panels("block", "overlap_percent", {std::move(panel)});
    figure->caption_text = fmt::format(
        "Share of the prompt's tokens kept with each block size that is also kept with the prompt "
        "as one block (B = ∞), mean over all heads, N = {}.",
        format_count(replays.front()->budget));
    return figure;
  });
}

}  // namespace

FigureInfo overlap_entry() {
  FigureInfo info = figure_info(
      "block-overlap", "Block size and kept tokens",
      "How alike the kept sets are with several block sizes and with the prompt as one block: |S_B "
      "∩ S_∞| over the larger set (KeyDiff, tables 7 and 10, compares scores of tasks)",
      Topic::comparisons, compute_overlap);
  info.needs.comparison = true;
  info.choices = {
      policies_choice(published_list({"A", "B", "keydiff", "h2o", "tova", "snapkv", "sink"})),
      blocks_choice("32,64,128,256")};
  info.unavailable = fixed_block_size;
  return info;
}

FigureInfo entry() {
  FigureInfo info = figure_info(
      "block-size", "Block size and output",
      "Overlap of the kept tokens and output error with blocks of 32, of 128 and of the whole "
      "prompt (CAOTE, table 6, compares scores of tasks)",
      Topic::values, compute, kTwoColumns, 2.4);
  info.needs.comparison = true;
  info.choices = {
      policies_choice(published_list({"A", "B", "h2o", "h2o+caote", "snapkv", "snapkv+caote"})),
      blocks_choice("32,128,all")};
  info.unavailable = fixed_block_size;
  return info;
}

}  // namespace kvloupe::figure::block_size_figure

namespace kvloupe::figure::block_overlap_figure {
FigureInfo entry() { return block_size_figure::overlap_entry(); }
}  // namespace kvloupe::figure::block_overlap_figure
