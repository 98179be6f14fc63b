#include "capture/tasks/make_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/error.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/study/prompt_set.h"
#include "analysis/text.h"
#include "capture/tasks/task_catalog.h"

namespace kvloupe {

namespace {

std::vector<const PromptTask*> tasks_of(const std::vector<std::string>& names) {
  std::vector<const PromptTask*> found;
  std::vector<std::string> known = {"all"};
  for (const PromptTask& task : task_catalog()) known.push_back(task.name);
  for (const std::string& name : names) {
    if (std::count(known.begin(), known.end(), name) == 0) {
      throw UsageError(fmt::format("{}: is not a task; do you mean {}? The tasks: {}",
                                   in_quotes(name), nearest_word(name, known),
                                   fmt::join(known, ", ")));
    }
    for (const PromptTask& task : task_catalog()) {
      if (name != "all" && name != task.name) continue;
      if (std::count(found.begin(), found.end(), &task) == 0) found.push_back(&task);
    }
  }
  return found;
}

std::string text_of(const TaskPrompt& prompt) {
  return prompt.context + prompt.question + prompt.prefix;
}

nlohmann::ordered_json line_of(const PromptTask& task, const TaskPrompt& prompt, int number,
                               int tokens) {
  nlohmann::ordered_json line = {{"index", number},
                                 {"task", task.name},
                                 {"input", prompt.context + prompt.question},
                                 {"answer_prefix", prompt.prefix},
                                 {"outputs", prompt.answers}};
  if (!prompt.needles.empty()) line["needle"] = prompt.needles;
  if (!prompt.rules.empty()) line["rules"] = prompt.rules;
  line["scoring"] = task.scoring;
  line["max_new_tokens"] = task.answer_tokens;
  line["length"] = tokens + task.answer_tokens;
  return line;
}

TaskSet make_set(const PromptTask& task, const TaskRequest& request, const TaskMaterial& of) {
  constexpr int kMostTries = 100;
  TaskSet set{task.name, "", of.length, 0, task.answer_tokens, task.scoring};
  std::set<std::string> known;
  std::uint64_t name = 0;
  for (const char c : task.name) name = splitmix(name + static_cast<unsigned char>(c));
  int size = task.smallest;
  for (int number = 0; number < request.count; ++number) {
    std::string doubt;
    for (std::uint64_t tried = 0;; ++tried) {
      if (tried == kMostTries)
        throw WorkError(fmt::format("{}: prompt {} {}, whatever is drawn; take another --filler",
                                    task.name, number, doubt));
      const Draws draws(request.seed, {name, static_cast<std::uint64_t>(number), tried});
      const auto tokens_with = [&](int units) {
        return of.tokens(text_of(task.prompt(of, draws, number, units)));
      };
      size = largest_size(task.smallest, size, [&](int units) {
        return tokens_with(units) + task.answer_tokens <= of.length;
      });
      if (size < task.smallest) {
        throw UsageError(fmt::format("--length {}: {} needs at least {} tokens", of.length,
                                     task.name, tokens_with(task.smallest) + task.answer_tokens));
      }
      const TaskPrompt prompt = task.prompt(of, draws, number, size);
      const int tokens = of.tokens(text_of(prompt));
      const std::string line = line_of(task, prompt, number, tokens)
                                   .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      // As a study reads the line.
      doubt = parse_prompt_line({task.name, task.name, number}, line).doubt;
      if (!doubt.empty()) continue;
      doubt = "is there twice";
      if (!known.insert(text_of(prompt)).second) continue;
      set.lines += line + "\n";
      set.fewest = std::min(set.fewest, tokens);
      set.most = std::max(set.most, tokens);
      break;
    }
  }
  return set;
}

}  // namespace

std::vector<TaskSet> make_tasks(const TaskRequest& request, const Tokenizer& tokenizer) {
  const std::vector<const PromptTask*> tasks = tasks_of(request.names);
  TaskMaterial of = read_task_material(request.filler);
  of.length = request.length;
  of.tokens = [&](const std::string& text) {
    return static_cast<int>(tokenizer.encode(text).size()) + (tokenizer.bos() ? 1 : 0);
  };
  std::vector<TaskSet> sets;
  for (const PromptTask* task : tasks) sets.push_back(make_set(*task, request, of));
  return sets;
}

}  // namespace kvloupe
