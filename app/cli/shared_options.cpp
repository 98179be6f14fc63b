#include "app/cli/shared_options.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/typed_values.h"
#include "app/window/state/preferences.h"

namespace kvloupe::cli {

void add_block_and_compression(CLI::App& verb, int& block,
                               std::optional<Compression>& compression) {
  verb.add_option("--block", block, "Tokens per prompt step (default: the capture's)")
      ->transform(block_size(kWholePrompt));
  add_word_option(verb, "--compression", compression, compression_words(), kCompressionHelp);
}

void ReplayOptions::add_replay(CLI::App& verb) {
  verb.add_option("TRACE", trace, "The trace file")->required();
  verb.add_option("--policy", policy, "A policy, such as keydiff+recent(10%)")->required();
  verb.add_option(
          "--budget", budget,
          "Entries a head may hold: a count, or a share of the prompt such as 25%; or bytes of "
          "all caches: 12MB, or a share of the full cache's such as 25%bytes (under quant, "
          "scales that outlive the entries of their group may take more)")
      ->required();
  add_block_and_compression(verb, block, compression);
}

void ReplayOptions::add_to(CLI::App& verb) {
  add_replay(verb);
  verb.add_option("--json", json, "Write JSON to a file, or to standard output with -");
}

ReplayRequest ReplayOptions::open(std::optional<Trace>& opened) const {
  ReplayRequest request;
  request.policy = parse_policy(policy);
  const Budget wanted = parse_budget(budget);
  refuse_own_input(json, {trace});
  opened.emplace(trace);
  request.budget = budget_entries(wanted, *opened, request.policy);
  request.block = block;
  request.compression = compression;
  return request;
}

double parse_share(const std::string& text, const char* verb, const char* what) {
  const bool percent = text.ends_with('%');
  const auto value = number_in<double>(text.substr(0, text.size() - (percent ? 1 : 0)));
  if (!value)
    throw UsageError(fmt::format("{}: write a {} such as 5% or 0.05, not '{}'", verb, what, text));
  return percent ? *value / 100.0 : *value;
}

void add_list_verb(CLI::App& app, Action& action, const char* name, const char* help,
                   const ListTexts& texts) {
  const auto [verb, options] = Verb<ListTexts>(app, action, name, help, [](const ListTexts& o) {
    write_whole_file("-", (o.as_json ? o.json : o.as_markdown ? o.markdown : o.table)());
    return 0;
  });
  *options = texts;
  CLI::Option* json = verb->add_flag("--json", options->as_json, "Write JSON");
  verb->add_flag("--markdown", options->as_markdown, fmt::format("Write docs/{}.md", name))
      ->excludes(json);
}

void add_study_results(CLI::App& verb, std::string& results) {
  verb.add_option("RESULTS", results,
                  "The results file of a study: kvloupe-capture study, kvloupe study, or Python")
      ->required();
}

void add_loss_options(CLI::App& verb, AdviceRequest& request, std::string& risk,
                      const LossWords& words) {
  verb.add_option("--loss", request.measure,
                  std::string("A measure of the study, such as answer_found. Where more is better, "
                              "the loss is 1 less the measure. ") +
                      words.without);
  verb.add_option("--at-most", request.at_most,
                  "The expected loss that new prompts of the same kind may have" + words.at_most);
  verb.add_option("--risk", risk,
                  fmt::format("The risk that {} is wrong, because the prompts of the study were "
                              "easier than they are on average",
                              words.promises))
      ->capture_default_str();
  verb.add_option("--largest", request.largest,
                  "For a measure that is no share: larger losses count as this");
  verb.add_flag("--over-full", request.over_full,
                "Count what a prompt loses beside the full cache, not what the full cache loses");
}

void add_study_block(CLI::App& verb, AdviceRequest& request) {
  verb.add_option("--block", request.block, "Block size (default: the study's first)");
}

namespace {

constexpr int kLeastSide = 320;
constexpr int kMostSide = 8192;

/// WxH in pixels.
void parse_size(const std::string& text, int& width, int& height) {
  std::tie(width, height) = numbers_around<int>('x', text).value_or(std::pair{0, 0});
  if (std::min(width, height) < kLeastSide || std::max(width, height) > kMostSide) {
    throw UsageError(
        fmt::format("--size {}: write WIDTHxHEIGHT in pixels, each from {} to {}, e.g. 1600x1000",
                    text, kLeastSide, kMostSide));
  }
}

}  // namespace

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw FileError(path, "cannot be used as a folder (" + error.message() + "); choose another");
}

void add_window_options(CLI::App& app, WindowWords& words) {
  app.add_option("--screenshot", words.options.screenshot,
                 "Write one picture when all jobs are done, then exit");
  app.add_option("--size", words.size, "Size of the window or the picture in pixels, WxH")
      ->default_str("1600x1000");
}

void load_plugins_of_preferences(WindowWords& words) {
  if (!words.options.screenshot.empty()) return;  // a picture does not depend on whose it is
  words.options.problems = window::load_preferred_plugins(window::preferences_path());
  for (const std::string& problem : words.options.problems) {
    std::fprintf(stderr, "kvloupe: %s\n", in_lines(problem).c_str());
  }
}

window::WindowOptions options_of(const WindowWords& words) {
  window::WindowOptions options = words.options;
  if (!words.size.empty()) parse_size(words.size, options.width, options.height);
  return options;
}

}  // namespace kvloupe::cli
