#include "app/cli/replay_options.h"

#include "analysis/command_line.h"
#include "analysis/output_file.h"
#include "analysis/replay/budget_entries.h"
#include "analysis/trace/compression_words.h"

namespace kvloupe::cli {

void ReplayOptions::add_replay(CLI::App& verb) {
  verb.add_option("TRACE", trace, "The trace file")->required();
  verb.add_option("--policy", policy, "A policy, such as keydiff+recent(10%)")->required();
  verb.add_option(
          "--budget", budget,
          "Entries a head may hold: a count, or a share of the prompt such as 25%; or bytes of "
          "all caches: 12MB, or a share of the full cache's such as 25%bytes (under quant, "
          "scales that outlive the entries of their group may take more)")
      ->required();
  verb.add_option("--block", block, "Tokens per prompt step (default: the capture's)")
      ->transform(block_size(kWholePrompt));
  add_word_option(verb, "--compression", compression, compression_words(), kCompressionHelp);
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

}  // namespace kvloupe::cli
