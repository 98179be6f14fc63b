#include "app/request/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "analysis/policy/policy_files.h"
#include "app/request/settings_in_words.h"

namespace kvloupe::request {

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

std::string command_line(const figure::FigureInfo& info, const FigureRequest& request,
                         const figure::FileOptions& options, const figure::PageSize& page,
                         const std::string& path) {
  std::string line = "kvloupe export";
  for (const InputIdentity& input : request.inputs) line += " " + shell_word(input.path);
  const auto add = [&](const std::string& name, const std::string& value) {
    line += " " + name + " " + shell_word(value);
  };
  const auto range = [&](const char* name, const auto& value) {
    if (value) add(name, fmt::format("{:.9g}:{:.9g}", value->first, value->second));
  };
  const figure::Selection& at = request.selection;
  add("--figure", request.figure);
  std::vector<std::string> plugins;
  for (const PolicySpec& policy : policies_of(info, request)) {
    for (const std::string& plugin : policy_plugins(policy)) {
      if (std::find(plugins.begin(), plugins.end(), plugin) != plugins.end()) continue;
      plugins.push_back(plugin);
      add("--plugin", plugin);
    }
  }
  if (request.policy_a) add("--policy", request.policy_a->text());
  if (request.policy_b) add("--policy-b", request.policy_b->text());
  if (request.budget) add("--budget", request.budget->text());
  if (request.block == kWholePrompt) {
    add("--block", "all");
  } else if (request.block > 0) {
    add("--block", std::to_string(request.block));
  }
  if (request.compression) add("--compression", compression_name(*request.compression));
  if (needs_of(info, request.choices).head) {
    add("--layer", std::to_string(at.layer));
    add("--head", std::to_string(at.head));
    if (at.query_head >= 0) add("--query-head", std::to_string(at.query_head));
  }
  if (at.step >= 0) add("--step", std::to_string(at.step));
  if (at.token >= 0) add("--token", std::to_string(at.token));
  if (at.last_token >= 0) add("--tokens", fmt::format("{}-{}", at.first_token, at.last_token));
  for (const auto& [name, value] : request.choices) add("--set", name + "=" + value);
  range("--x", options.x_range);
  range("--y", options.y_range);
  range("--limits", options.limits);
  add("--size", size_text(page));
  if (options.theme != figure::Theme::light) add("--theme", std::string(theme_name(options.theme)));
  if (options.patterns && *options.patterns != has_patterns(options.theme))
    line += *options.patterns ? " --patterns" : " --no-patterns";
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

}  // namespace kvloupe::request
