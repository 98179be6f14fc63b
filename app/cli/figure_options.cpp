#include "app/cli/figure_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "analysis/command_line.h"
#include "analysis/error.h"
#include "analysis/replay/compression.h"

namespace kvloupe::cli {

namespace {

/// "A-B", or "A" for one token.
std::pair<int, int> parse_tokens(const std::string& text) {
  int ends[2] = {0, 0};
  const char* at = text.data();
  const char* end = at + text.size();
  const auto first = std::from_chars(at, end, ends[0]);
  bool good = first.ec == std::errc();
  ends[1] = ends[0];
  at = first.ptr;
  if (good && at != end) {
    good = *at == '-';
    const auto second = std::from_chars(at + 1, end, ends[1]);
    good = good && second.ec == std::errc() && second.ptr == end;
  }
  if (!good || ends[0] < 0 || ends[1] < 0) {
    throw UsageError(
        fmt::format("--tokens {}: is not a range; write two token indices, such as 0-255", text));
  }
  return {ends[0], ends[1]};
}

/// "FROM:TO"; nothing where the text is empty.
std::optional<std::pair<double, double>> parse_range(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::pair<double, double> range;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  bool good = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  if (good) {
    const auto second = std::from_chars(first.ptr + 1, end, range.second);
    good = second.ec == std::errc() && second.ptr == end && range.first != range.second &&
           std::isfinite(range.first) && std::isfinite(range.second);
  }
  if (!good) {
    throw UsageError(
        fmt::format("{} {}: is not a range; write two numbers, such as 0:256", option, text));
  }
  return range;
}

}  // namespace

void add_figure_options(CLI::App& verb, FigureOptions& o) {
  verb.add_option("--policy", o.policy, "The policy whose decisions are shown")
      ->capture_default_str();
  verb.add_option("--policy-b", o.policy_b, "A second policy, for figures that can show two");
  verb.add_option("--budget", o.budget,
                  "Entries a head may hold: a count, a share of the prompt, or as many as fit in "
                  "bytes, such as 12MB")
      ->capture_default_str();
  verb.add_option("--block", o.block, "Tokens per prompt step (default: the capture's)")
      ->transform(block_size(kWholePrompt));
  add_word_option(verb, "--compression", o.compression, compression_words(), kCompressionHelp);
  o.has_layer = verb.add_option("--layer", o.layer, "Layer (default: the middle one)");
  o.has_head = verb.add_option("--head", o.head, "Key-value head (default: 0)");
  o.has_query_head =
      verb.add_option("--query-head", o.query_head,
                      "Query head (default: the mean over the query heads of the head)");
  o.has_step = verb.add_option("--step", o.step, "Step (default: the last of the prompt)");
  o.has_token =
      verb.add_option("--token", o.token, "The token that the figure is about, where it needs one");
  verb.add_option("--tokens", o.tokens,
                  "Range of tokens, both included, such as 0-255 (default: all)");
  verb.add_option("--size", o.size,
                  "Outer size, such as 85x60mm or 1600x900px (default: one or two columns wide, as "
                  "high as needed); --caption adds its lines below. PNG: 300 dpi; a pixel is 1/192 "
                  "inch");
  std::vector<std::string> themes;
  for (const figure::Theme theme : figure::kThemes) themes.emplace_back(theme_name(theme));
  verb.add_option("--theme", o.theme, "light, dark or high-contrast")
      ->check(CLI::IsMember(themes))
      ->capture_default_str();
  verb.add_option("--colours", o.colours, "Colour map of amounts: viridis, cividis or grey")
      ->capture_default_str();
  CLI::Option* patterns =
      verb.add_flag("--patterns", o.patterns, "Lines and dots beside the colours of fates");
  verb.add_flag("--no-patterns", o.no_patterns, "No patterns, even in the high-contrast theme")
      ->excludes(patterns);
  verb.add_option("--text", o.text, "Font size in points")
      ->check(CLI::Range(5.0, 24.0))
      ->capture_default_str();
  verb.add_option("--x", o.x, "Visible part of the x axis, FROM:TO (default: all)");
  verb.add_option("--y", o.y, "Visible part of the y axis, FROM:TO (default: all)");
  verb.add_option("--limits", o.limits,
                  "Limits of the colour bar, FROM:TO (default: the figure's own)");
  verb.add_flag("--title", o.title, "Write the figure's title above it");
  verb.add_flag("--no-legend", o.no_legend, "Leave out the legend");
  verb.add_flag("--caption", o.caption, "Write a description and the settings under the figure");
}

request::FigureSettings settings_of(const FigureOptions& o) {
  request::FigureSettings settings;
  settings.policy = parse_policy(o.policy);
  if (!o.policy_b.empty()) settings.policy_b = parse_policy(o.policy_b);
  settings.budget = parse_budget(o.budget);
  settings.block = o.block;
  settings.compression = o.compression;
  if (o.has_layer->count() > 0) settings.layer = o.layer;
  if (o.has_head->count() > 0) settings.head = o.head;
  if (o.has_query_head->count() > 0) settings.query_head = o.query_head;
  if (o.has_step->count() > 0) settings.step = o.step;
  if (o.has_token->count() > 0) settings.token = o.token;
  if (!o.tokens.empty()) settings.tokens = parse_tokens(o.tokens);
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

figure::FileOptions file_options_of(const FigureOptions& o) {
  figure::FileOptions options;
  if (!o.size.empty()) options.size = figure::parse_page_size(o.size);
  options.theme = figure::theme_named(o.theme).value_or(figure::Theme::light);
  if (o.patterns || o.no_patterns) options.patterns = o.patterns;
  options.amounts = figure::parse_amount_map(o.colours);
  options.caption = o.caption;
  options.title = o.title;
  options.legend = !o.no_legend;
  options.text = o.text;
  options.x_range = parse_range("--x", o.x);
  options.y_range = parse_range("--y", o.y);
  options.limits = parse_range("--limits", o.limits);
  return options;
}

void warn_about_fonts(const figure::TextMetrics& fonts) {
  for (const std::string& note : fonts.notes()) std::fprintf(stderr, "kvloupe: %s\n", note.c_str());
}

}  // namespace kvloupe::cli
