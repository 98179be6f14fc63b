// How much a policy's kept tokens of a prompt depend on the block size.

#include "analysis/numeric/statistics.h"
#include "analysis/policy/published.h"
#include "analysis/unknown.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::block_overlap_figure {

namespace {

/// Tokens retained once the prompt is over.
std::vector<std::int32_t> kept_of_prompt(const Trace& trace, const Replay& replay,
                                         const HeadReplay& head) {
  const int step = static_cast<int>(replay.blocks.size()) - trace.run().generated - 1;
  return replay.retained_at(head, std::max(step, 0));
}

/// |A ∩ B| as a share of the larger of the two, in percent.
double overlap(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  const std::size_t most = std::max(a.size(), b.size());
  return most == 0
             ? 100.0
             : 100.0 * static_cast<double>(set_overlap(a, b).both) / static_cast<double>(most);
}

/// Mean over the heads.
double mean_overlap(const Trace& trace, const Replay& whole, const Replay& replay) {
  double sum = 0.0;
  for (std::size_t h = 0; h < whole.heads.size(); ++h) {
    sum += overlap(kept_of_prompt(trace, whole, whole.heads[h]),
                   kept_of_prompt(trace, replay, replay.heads[h]));
  }
  return sum / static_cast<double>(whole.heads.size());
}

/// `replays`: of each policy one with the prompt as one block, then one of each block size.
std::unique_ptr<const Figure> drawn(const Trace& trace, const std::vector<PolicySpec>& policies,
                                    const std::vector<int>& blocks, const Replays& replays) {
  LinePanels::Panel panel;
  std::vector<std::string> names;
  for (const int block : blocks) names.push_back(format_count(block));
  names.emplace_back("∞");
  const std::size_t each = blocks.size() + 1;
  for (std::size_t p = 0; p < policies.size(); ++p) {
    LinePanels::Line line{.name = policies[p].text(), .look = static_cast<int>(p), .marked = true};
    for (std::size_t b = 0; b < each; ++b) {
      const auto& replay = replays[p * each + (b + 1 < each ? b + 1 : 0)];
      line.points.push_back({static_cast<double>(b) + 0.5,
                             replay ? mean_overlap(trace, *replays[p * each], *replay) : kUnknown});
    }
    panel.lines.push_back(std::move(line));
  }
  panel.x = name_axis(std::move(names), "Block size (tokens)");
  panel.y = y_axis("Overlap with B = ∞ (%)", {0.0, 100.0});
  panel.y_grid = true;
  auto figure = line_panels("block", "overlap_percent", {std::move(panel)});
  figure->caption_text = fmt::format(
      "Share of the prompt's tokens kept with each block size that is also kept with the prompt as "
      "one block (B = ∞), mean over all heads, N = {}.",
      format_count(replays.front()->budget));
  return figure;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const int prompt = input.trace->run().prompt_length;
  const std::vector<PolicySpec> policies = chosen_policies(input);
  std::vector<int> blocks;
  for (const int block : chosen_blocks(input)) {
    if (block < prompt) blocks.push_back(block);
  }
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : policies) {
    wanted.push_back({.policy = policy, .block = prompt});
    for (const int block : blocks) wanted.push_back({.policy = policy, .block = block});
  }
  return figure_of_replays(input, wanted, progress, [&](const Replays& replays) {
    return drawn(*input.trace, policies, blocks, replays);
  });
}
}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "block-overlap", "Block size and kept tokens",
      "How alike the kept sets are with several block sizes and with the prompt as one block: |S_B "
      "∩ S_∞| over the larger set (KeyDiff, tables 7 and 10, compares scores of tasks)",
      Topic::comparisons, compute);
  info.needs.comparison = true;
  info.choices = {
      policies_choice(published_list({"A", "B", "keydiff", "h2o", "tova", "snapkv", "sink"})),
      blocks_choice("32,64,128,256")};
  info.unavailable = fixed_block_size;
  return info;
}

}  // namespace kvloupe::figure::block_overlap_figure
