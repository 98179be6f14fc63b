#pragma once
// Sets of seeded prompts for the demo model.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::train {

/// The set that `kvloupe-train prompt-set` writes.
struct PromptSetRequest {
  std::filesystem::path folder;
  int count = 10;                  // prompts of each kind and length
  std::vector<std::string> kinds;  // names of prompt_kinds()
  std::vector<int> lengths;        // tokens with BOS; prompts with needles are at most so long
  std::uint64_t seed = 1;
  bool json_lines = false;  // a file per kind and length, instead of one per prompt
};

/// A kind of prompt, and a line about it.
struct PromptKind {
  std::string name;
  std::string what;
};
/// needle, needles, story, tale, ledger, cipher, repetition, mixed.
const std::vector<PromptKind>& prompt_kinds();

/// Writes KIND-LENGTH-NUMBER.txt for each prompt, a prompt file with its segments, and prompts.csv:
/// file, kind, tokens, answer (of a question). As JSON lines: KIND-LENGTH.jsonl, a prompt per line
/// in RULER's layout where it has a question, else its text; and no table. A prompt follows from
/// seed, kind, length and number, so that a larger set begins with the smaller one; none was in the
/// training. Throws UsageError for an unknown kind, WorkError for a length without room, FileError.
void write_prompt_set(const PromptSetRequest& request);

}  // namespace kvloupe::train
