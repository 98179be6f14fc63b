#pragma once
// Sets of prompts with answers, evidence and scoring, made by rule for one tokenizer.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/study/answer_rules.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// What prompts are made of: the lists of assets/tasks/words.json, and a text that hides needles.
struct TaskMaterial {
  std::vector<std::string> adjectives, nouns, names;
  std::vector<std::pair<std::string, std::string>> pairs;       // needle with {name}, question
  std::map<std::string, std::array<std::string, 3>> templates;  // context, question, prefix
  std::map<std::string, std::vector<std::string>> rule_texts;   // {text} of a kind of rules
  std::map<std::string, std::vector<int>> rule_counts;          // {count} of it
  std::vector<std::string> words = {};                          // of the text
  std::vector<std::size_t> starts = {};                         // of its sentences
  int length = 0;                                      // tokens of a prompt and its answer, at most
  std::function<int(const std::string&)> tokens = {};  // how many a text has, with BOS
};
/// assets/tasks/words.json and manual.txt, which are built into the program.
std::string_view task_words();
std::string_view task_manual();
/// `filler`: a prompt file, in place of the manual. Throws FileError.
TaskMaterial read_task_material(const std::optional<std::filesystem::path>& filler, int length,
                                const Tokenizer& tokenizer);

/// One prompt: the context with its line end, the last line's question, the answer's beginning.
struct TaskPrompt {
  std::string context, question, prefix;
  std::vector<std::string> answers = {}, needles = {};
  std::vector<AnswerRule> rules = {};
  std::string text() const { return context + question + prefix; }
};

using Draws = std::mt19937_64;  // equal with every library, unlike the distributions

/// A task: one of RULER's (Hsieh et al. 2024, NVIDIA/RULER c3f5e3b) by their rules, or our own.
struct PromptTask {
  std::string name;
  int answer_tokens;  // room for the answer
  int smallest;       // size of the smallest prompt
  /// The prompt of this number with `size` units of what fills it: lines, words or different words.
  /// With equal draws it only grows with the size.
  std::function<TaskPrompt(const TaskMaterial& of, Draws draws, int number, int size)> prompt;
};
std::span<const PromptTask> task_catalog();

/// The largest size that fits, from `smallest` on and often near `guess`; else `smallest` − 1.
int largest_size(int smallest, int guess, const std::function<bool(int)>& fits);

/// The prompts of a task, a line of JSON in RULER's layout (prompt_set.h) each. They have as much
/// text as fits, and no PromptParts::doubt. They follow from seed and number. Throws UsageError: a
/// length without room; WorkError where the filler holds the answers.
std::string make_prompts(const PromptTask& task, const TaskMaterial& of, int count,
                         std::uint64_t seed);

}  // namespace kvloupe
