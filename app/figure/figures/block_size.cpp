// Effect of the prompt's block size on the kept tokens and on the output, side by side.

#include "analysis/measure/output_error.h"
#include "analysis/numeric/statistics.h"
#include "analysis/policy/published.h"
#include "analysis/unknown.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::block_size_figure {

namespace {

/// Jaccard of the tokens two replays retain once the prompt is over, mean over the heads, in
/// percent.
double mean_overlap(const Replay& a, const Replay& b, int generated) {
  const auto kept = [&](const Replay& replay, std::size_t head) {
    const int step = std::max(static_cast<int>(replay.blocks.size()) - generated - 1, 0);
    return replay.retained_at(replay.heads[head], step);
  };
  double sum = 0.0;
  for (std::size_t h = 0; h < a.heads.size(); ++h) {
    sum += 100.0 * set_overlap(kept(a, h), kept(b, h)).jaccard();
  }
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

/// `replays`: of each policy one of each block size; the first is the whole prompt.
std::unique_ptr<const Figure> drawn(const std::vector<PolicySpec>& policies,
                                    const std::vector<int>& blocks, int generated,
                                    const Replays& replays) {
  std::vector<std::string> names;
  for (std::size_t b = 1; b < blocks.size(); ++b) names.push_back(format_count(blocks[b]));
  names.emplace_back("all");
  LinePanels::Panel tokens, error;
  ValueRange range;
  for (std::size_t p = 0; p < policies.size(); ++p) {
    LinePanels::Line line{.name = policies[p].text(), .look = static_cast<int>(p), .marked = true};
    LinePanels::Line other = line;
    const std::size_t whole = p * blocks.size();
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto& replay = replays[whole + (b + 1 < blocks.size() ? b + 1 : 0)];
      const double x = static_cast<double>(b) + 0.5;
      line.points.push_back(
          {x, replay ? mean_overlap(*replays[whole], *replay, generated) : kUnknown});
      other.points.push_back({x, replay ? error_of(*replay, generated) : kUnknown});
      range.add(other.points.back().y);
    }
    tokens.lines.push_back(std::move(line));
    error.lines.push_back(std::move(other));
  }
  tokens.title = "Kept tokens";
  tokens.x = error.x = name_axis(std::move(names), "Block size (tokens)");
  tokens.y = y_axis("Overlap with one block (%)", {0.0, 100.0});
  error.title = "Output error";
  error.y = y_axis("Σ‖o − o′‖² / Σ‖o‖²", range.from_zero());
  tokens.y_grid = error.y_grid = true;
  auto figure = line_panels("block", "value", {std::move(tokens), std::move(error)});
  figure->legend = true;
  figure->caption_text = fmt::format(
      "Comparison of block sizes, N = {}: a, overlap (Jaccard) of the prompt's tokens kept with "
      "this block size and those kept with the prompt as one block, mean over all heads; b, output "
      "error Σ‖o − o′‖² / Σ‖o‖² of the prompt's last query and those after it, all heads of all "
      "layers (normalisation ours).",
      format_count(replays.front()->budget));
  return figure;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const int prompt = input.trace->run().prompt_length;
  const int generated = input.trace->run().generated;
  const std::vector<PolicySpec> policies = chosen_policies(input);
  std::vector<int> blocks{prompt};
  for (const int block : chosen_blocks(input)) {
    if (block < prompt) blocks.push_back(block);
  }
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : policies) {
    for (const int block : blocks) {
      WantedReplay one{.policy = policy, .block = block};
      one.measures = {"output_norm_l2", "head_error_l2"};
      const int steps =
          static_cast<int>(replay_blocks(*input.trace, block, input.compression).size());
      for (int step = std::max(steps - generated - 1, 0); step < steps; ++step)
        one.steps.push_back(step);
      wanted.push_back(std::move(one));
    }
  }
  return figure_of_replays(input, wanted, progress, [&](const Replays& replays) {
    return drawn(policies, blocks, generated, replays);
  });
}

}  // namespace

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
