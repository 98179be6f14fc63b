#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/study/answer_rules.h"
#include "capture/tasks/draws.h"

namespace kvloupe {

/// What prompts are made of.
struct TaskMaterial {
  std::vector<std::string> adjectives, nouns, names;
  std::vector<std::pair<std::string, std::string>> pairs;  // needle with {name}, and its question
  std::vector<std::string> words;                          // of the text that hides the needles
  std::vector<std::size_t> starts;                         // the words that begin a sentence
  int length = 0;                                          // tokens of a prompt and its answer
  std::function<int(const std::string&)> tokens;           // how many a text has
};

/// The lists of assets/tasks, and the text of `filler`, a prompt file, or of
/// assets/tasks/manual.txt. Throws FileError.
TaskMaterial read_task_material(const std::optional<std::filesystem::path>& filler);

/// One prompt: the context with its line end, the question in the last line, the answer's
/// beginning.
struct TaskPrompt {
  std::string context, question, prefix;
  std::vector<std::string> answers, needles;
  std::vector<AnswerRule> rules;
};

/// A task: RULER's (Hsieh et al. 2024, NVIDIA/RULER c3f5e3b) by their rules, and kvloupe's own.
struct PromptTask {
  std::string name;
  int answer_tokens;    // room for the answer
  const char* scoring;  // the measure that judges the answer
  int smallest;         // size of the smallest prompt
  /// The prompt of this number with `size` units of what fills it: lines, words or different words.
  /// Equal draws give prompts that only grow with the size.
  std::function<TaskPrompt(const TaskMaterial& of, Draws draws, int number, int size)> prompt;
};

std::span<const PromptTask> task_catalog();

/// The largest size from `smallest` on that fits; smallest − 1 where none does. The search begins
/// at `guess`.
int largest_size(int smallest, int guess, const std::function<bool(int)>& fits);

}  // namespace kvloupe
