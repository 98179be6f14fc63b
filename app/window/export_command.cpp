#include "app/window/export_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "app/window/view_catalog.h"

namespace kvloupe::window {

namespace {

std::string size_text(const figure::PageSize& page) {
  if (page.in_pixels) {
    return fmt::format("{:.0f}x{:.0f}px", page.width * page.pixels_per_point,
                       page.height * page.pixels_per_point);
  }
  return fmt::format("{:.6g}x{:.6g}mm", page.width / figure::kPointsPerMillimetre,
                     page.height / figure::kPointsPerMillimetre);
}

}  // namespace

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view("-_./:=+,%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string export_command(const WorkspaceState& state, const TileState& tile, int step,
                           const figure::FileOptions& options, const figure::PageSize& page,
                           const std::string& path, const std::vector<std::string>& inputs) {
  const figure::FigureInfo& figure = *find_view(tile.view);
  std::string line = "kvloupe export";
  for (const std::string& input : inputs) line += " " + shell_word(input);
  if (inputs.empty()) line += " " + shell_word(state.trace);
  const auto add = [&](const std::string& name, const std::string& value) {
    line += " " + name + " " + shell_word(value);
  };
  const auto range = [&](const char* name, const auto& value) {
    if (value) add(name, fmt::format("{:.9g}:{:.9g}", value->first, value->second));
  };
  const SharedSelection& at = state.selection;
  add("--figure", figure.name);
  const bool policies = figure.needs.policy || figure.needs.comparison || figure.needs.policy_b;
  if (policies) {
    const bool only_b = tile.side == PolicySide::b && state.policy_b_on && !figure.needs.policy_b;
    add("--policy", only_b ? state.policy_b : state.policy_a);
    if (state.policy_b_on && (tile.side == PolicySide::both || figure.needs.policy_b))
      add("--policy-b", state.policy_b);
    add("--budget", state.budget);
    if (state.block > 0) add("--block", std::to_string(state.block));
  } else if (figure.needs.evaluation) {
    add("--budget", state.budget);
  }
  if (figure.needs.head) {
    add("--layer", std::to_string(at.layer));
    add("--head", std::to_string(at.head));
    if (at.query_head >= 0) add("--query-head", std::to_string(at.query_head));
  }
  if (figure.needs.step) add("--step", std::to_string(step));
  if (figure.needs.token && at.token >= 0) add("--token", std::to_string(at.token));
  if (figure.needs.tokens && at.last_token >= 0) {
    add("--tokens", fmt::format("{}-{}", at.first_token, at.last_token));
  }
  for (const auto& [name, value] : tile.choices) add("--set", name + "=" + value);
  range("--x", tile.x_range);
  range("--y", tile.y_range);
  range("--limits", tile.limits);
  add("--size", size_text(page));
  if (options.theme == figure::Theme::dark) add("--theme", "dark");
  if (options.amounts != figure::AmountMap::viridis) {
    add("--colours", std::string(amount_map_name(options.amounts)));
  }
  if (options.text != figure::FileOptions{}.text)
    add("--text", fmt::format("{:.4g}", options.text));
  if (options.title) line += " --title";
  if (!options.legend) line += " --no-legend";
  if (options.caption) line += " --caption";
  add("--output", path);
  return line;
}

}  // namespace kvloupe::window
