#include "app/cli/figure_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "analysis/base/core/error.h"
#include "analysis/base/text/typed_number.h"
#include "app/cli/shared_options.h"

namespace kvloupe::cli {

namespace {

/// "A-B", or "A" for one token.
std::pair<int, int> parse_tokens(const std::string& text) {
  const auto one = number_in<int>(text);
  const auto ends = one ? std::optional(std::pair(*one, *one)) : numbers_around<int>('-', text);
  if (ends && ends->first >= 0 && ends->second >= 0) return *ends;
  throw UsageError(
      fmt::format("--tokens {}: is not a range; write two token indices, such as 0-255", text));
}

}  // namespace

void add_figure_options(CLI::App& verb, FigureOptions& o) {
  request::FigureSettings& settings = o.settings;
  const auto text = [&](const char* name, std::function<void(const std::string&)> take,
                        const char* help) {
    return verb.add_option_function<std::string>(name, std::move(take), help);
  };
  const auto range = [&](const char* name, std::optional<std::pair<double, double>>& ends,
                         const char* help) {
    const auto take = [name, &ends](const std::string& typed) {
      ends = numbers_around<double>(':', typed);
      if (ends && ends->first != ends->second) return;
      throw UsageError(
          fmt::format("{} {}: is not a range; write two numbers, such as 0:256", name, typed));
    };
    text(name, take, help);
  };
  verb.add_option("--policy", o.policy, "The policy whose decisions are shown")
      ->capture_default_str();
  verb.add_option("--policy-b", o.policy_b, "A second policy, for figures that can show two");
  verb.add_option("--budget", o.budget,
                  "Entries a head may hold: a count, a share of the prompt, or as many as fit in "
                  "bytes, such as 12MB")
      ->capture_default_str();
  add_block_and_compression(verb, settings.block, settings.compression);
  verb.add_option("--layer", settings.layer, "Layer (default: the middle one)");
  verb.add_option("--head", settings.head, "Key-value head (default: 0)");
  verb.add_option("--query-head", settings.query_head,
                  "Query head (default: the mean over the query heads of the head)");
  verb.add_option("--step", settings.step, "Step (default: the last of the prompt)");
  verb.add_option("--token", settings.token,
                  "The token that the figure is about, where it needs one");
  text(
      "--tokens", [&](const std::string& typed) { settings.tokens = parse_tokens(typed); },
      "Range of tokens, both included, such as 0-255 (default: all)");
  text(
      "--size", [&o](const std::string& typed) { o.file.size = figure::parse_page_size(typed); },
      "Outer size, such as 85x60mm or 1600x900px (default: one or two columns wide, as high as "
      "needed); --caption adds its lines below. PNG: 300 dpi; a pixel is 1/192 inch");
  std::vector<std::string> themes;
  for (const figure::Theme theme : figure::kThemes) themes.emplace_back(theme_name(theme));
  text(
      "--theme", [&o](const std::string& name) { o.file.theme = *figure::theme_named(name); },
      "light, dark or high-contrast")
      ->check(CLI::IsMember(themes))
      ->default_str(themes.front());
  text(
      "--colours",
      [&o](const std::string& name) { o.file.amounts = figure::parse_amount_map(name); },
      "Colour map of amounts: viridis, cividis or grey")
      ->default_str("viridis");
  CLI::Option* patterns = verb.add_flag_callback(
      "--patterns", [&o] { o.file.patterns = true; }, "Lines and dots beside the colours of fates");
  verb.add_flag_callback(
          "--no-patterns", [&o] { o.file.patterns = false; },
          "No patterns, even in the high-contrast theme")
      ->excludes(patterns);
  verb.add_option("--text", o.file.text, "Font size in points")
      ->check(CLI::Range(5.0, 24.0))
      ->capture_default_str();
  range("--x", o.file.x_range, "Visible part of the x axis, FROM:TO (default: all)");
  range("--y", o.file.y_range, "Visible part of the y axis, FROM:TO (default: all)");
  range("--limits", o.file.limits, "Limits of the colour bar, FROM:TO (default: the figure's own)");
  verb.add_flag("--title", o.file.title, "Write the figure's title above it");
  verb.add_flag_callback(
      "--no-legend", [&o] { o.file.legend = false; }, "Leave out the legend");
  verb.add_flag("--caption", o.file.caption,
                "Write a description and the settings under the figure");
}

request::FigureSettings settings_of(const FigureOptions& o) {
  request::FigureSettings settings = o.settings;
  settings.policy = parse_policy(o.policy);
  if (!o.policy_b.empty()) settings.policy_b = parse_policy(o.policy_b);
  settings.budget = parse_budget(o.budget);
  // −1 stands for a default inside; typed, it is a wrong index.
  for (const auto& [name, value] : {std::pair{"--query-head", settings.query_head},
                                    {"--step", settings.step},
                                    {"--token", settings.token}}) {
    if (value && *value < 0)
      throw UsageError(fmt::format("{} {}: is negative; indices count from 0", name, *value));
  }
  for (const std::string& choice : o.choices) {
    const std::size_t equals = choice.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("--set {}: write NAME=VALUE", choice));
    }
    settings.choices[choice.substr(0, equals)] = choice.substr(equals + 1);
  }
  return settings;
}

void warn_about_fonts(const figure::TextMetrics& fonts) {
  for (const std::string& note : fonts.notes()) std::fprintf(stderr, "kvloupe: %s\n", note.c_str());
}

}  // namespace kvloupe::cli
