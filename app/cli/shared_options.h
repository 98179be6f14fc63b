#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "analysis/replay/replay.h"
#include "analysis/study/advice.h"
#include "analysis/trace/trace.h"
#include "app/cli/commands.h"
#include "app/window/shell/window.h"

namespace kvloupe::cli {

/// --block and --compression.
void add_block_and_compression(CLI::App& verb, int& block, std::optional<Compression>& compression);

/// The replay of a trace that a verb makes, and where its JSON goes.
struct ReplayOptions {
  std::string trace, policy, budget, json;
  int block = 0;
  std::optional<Compression> compression;

  /// TRACE, --policy, --budget, --block and --compression.
  void add_replay(CLI::App& verb);
  /// The same, and --json.
  void add_to(CLI::App& verb);
  /// The request of these options. Opens the trace last: first all else is checked. Throws
  /// UsageError, FileError.
  ReplayRequest open(std::optional<Trace>& opened) const;
};

/// "5%" or "0.05" as a number. Throws UsageError, naming the verb and what the share is of.
double parse_share(const std::string& text, const char* verb, const char* what);

/// Creates the folder if it is missing. Throws FileError if it cannot be one.
void make_folder(const std::string& path);

/// What a verb prints of a catalogue: a table; with --json; with --markdown, a page of docs/.
struct ListTexts {
  std::string (*table)();
  std::string (*json)();
  std::string (*markdown)();
  bool as_json = false, as_markdown = false;
};
void add_list_verb(CLI::App& app, Action& action, const char* name, const char* help,
                   const ListTexts& texts);

/// RESULTS, of a study.
void add_study_results(CLI::App& verb, std::string& results);

/// The texts in which the verbs differ.
struct LossWords {
  const char* without;   // what follows from the absence of --loss
  std::string at_most;   // more about --at-most
  const char* promises;  // "a promise": which ones may be wrong
};
/// The loss and the confidence: --loss to --over-full.
void add_loss_options(CLI::App& verb, AdviceRequest& request, std::string& risk,
                      const LossWords& words);
/// --block.
void add_study_block(CLI::App& verb, AdviceRequest& request);

/// The options of every verb that opens the window.
struct WindowWords {
  window::WindowOptions options;
  std::string size;  // WxH as typed; empty: the window's own
};

/// Adds them to a verb.
void add_window_options(CLI::App& app, WindowWords& words);

/// Loads the plugins of the preferences, for a window that stays open; their errors are printed on
/// standard error, and shown in the window. To be called before anything reads the catalogue of
/// policies.
void load_plugins_of_preferences(WindowWords& words);

/// Parses the size. Throws UsageError for a text that is not a size.
window::WindowOptions options_of(const WindowWords& words);

}  // namespace kvloupe::cli
