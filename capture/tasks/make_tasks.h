#pragma once
// Sets of prompts with answers, evidence and scoring, made for one tokenizer.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

struct TaskRequest {
  std::vector<std::string> names;  // of task_catalog(); "all": all of them
  int length = 0;                  // tokens of a prompt and its answer, at most
  int count = 50;                  // prompts of each task
  std::uint64_t seed = 42;
  std::optional<std::filesystem::path> filler = {};  // hides the needles in place of our manual
};

/// The prompts of one task.
struct TaskSet {
  std::string name;
  std::string lines;         // a file of JSON lines, in RULER's layout (prompt_set.h)
  int fewest = 0, most = 0;  // tokens of the prompts
  int answer_tokens = 0;
  std::string scoring;
};

/// Each prompt has as much text as fits, differs from the others, and leaves prompt_doubt() nothing
/// to say. Equal requests give equal bytes, and a larger count keeps the prompts of a smaller one.
/// Throws UsageError: a name that is no task, a length that has no room; FileError: the filler;
/// WorkError where the filler holds the answers.
std::vector<TaskSet> make_tasks(const TaskRequest& request, const Tokenizer& tokenizer);

}  // namespace kvloupe
