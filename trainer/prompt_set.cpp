#include "trainer/prompt_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/error.h"
#include "analysis/numeric/splitmix.h"
#include "analysis/output_file.h"
#include "analysis/policy/kit/nearest_word.h"
#include "capture/tokenizer/prompt.h"
#include "trainer/corpus.h"
#include "trainer/prompt_file.h"
#include "trainer/vocabulary.h"

namespace kvloupe::train {

namespace {

constexpr std::uint64_t kSetStreams = std::uint64_t{1} << 61U;  // apart from those of training

/// How a kind is generated: needles, or a mix of passages.
struct Recipe {
  const char* name;
  const char* what;
  int needles = 0;
  Mix mix = {};
};

Mix nothing() {
  return {.drill = 0.0,
          .repetition = 0.0,
          .cipher = 0.0,
          .ledger = 0.0,
          .story = 0.0,
          .tale = 0.0,
          .dice = 0.0,
          .fact = 0.0,
          .needle = 0.0,
          .recall = 0.0,
          .paragraph = 0.1};
}

Mix only(double Mix::*kind, double recall) {
  Mix mix = nothing();
  mix.*kind = 1.0;
  mix.recall = recall;
  return mix;
}

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = [] {
    Mix mixed = nothing();
    mixed.cipher = mixed.ledger = mixed.dice = 0.6;
    mixed.story = mixed.tale = 1.0;
    mixed.fact = 0.3;
    mixed.recall = 0.2;
    Mix story = only(&Mix::story, 0.1);
    story.fact = 0.3;
    return std::vector<Recipe>{
        {"needle", "a number hidden in passages of all kinds, and its question", 1},
        {"needles", "four numbers, and a question about one", 4},
        {"story", "stories of fixed patterns, and facts somebody asks about", 0, story},
        {"tale", "tales in which each word follows from the previous one", 0,
         only(&Mix::tale, 0.0)},
        {"ledger", "lists and ledgers, quoted again", 0, only(&Mix::ledger, 0.3)},
        {"cipher", "runs of random words, quoted again", 0, only(&Mix::cipher, 0.3)},
        {"repetition", "random segments that repeat", 0, only(&Mix::repetition, 0.0)},
        {"mixed", "passages of all kinds", 0, mixed}};
  }();
  return all;
}

const Recipe& find_recipe(const std::string& kind) {
  std::vector<std::string> names;
  for (const Recipe& one : recipes()) {
    if (kind == one.name) return one;
    names.emplace_back(one.name);
  }
  throw UsageError(
      fmt::format("--kinds {}: no such kind of prompt; did you mean '{}'? The kinds "
                  "are {}",
                  kind, nearest_word(kind, names), fmt::join(names, ", ")));
}

/// A prompt without a question: one segment.
std::string text_file(const Sequence& sequence, const Vocabulary& vocabulary) {
  NeedlePrompt prompt;
  prompt.ids = sequence.ids;
  prompt.question_begin = static_cast<int>(prompt.ids.size());
  return prompt_file(prompt, vocabulary);
}

/// A prompt file as a line of a benchmark.
std::string json_line(const std::string& file, const std::string& answer) {
  const Prompt prompt = parse_prompt(file);
  if (answer.empty()) return nlohmann::json{{"text", prompt.text}}.dump();
  const std::size_t word = answer.find_first_not_of(' ');
  return nlohmann::json{{"input", prompt.text}, {"outputs", {answer.substr(word)}}}.dump();
}

void write(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path.string());
  file.write(text);
  file.finish();
}

}  // namespace

const std::vector<PromptKind>& prompt_kinds() {
  static const std::vector<PromptKind> all = [] {
    std::vector<PromptKind> kinds;
    for (const Recipe& one : recipes()) kinds.push_back({one.name, one.what});
    return kinds;
  }();
  return all;
}

void write_prompt_set(const PromptSetRequest& request) {
  for (const std::string& kind : request.kinds) find_recipe(kind);
  std::error_code error;
  std::filesystem::create_directories(request.folder, error);
  if (error) {
    throw FileError(request.folder.string(),
                    "cannot be used as a folder (" + error.message() + "); choose another");
  }
  const Vocabulary vocabulary;
  std::string table = "file,kind,tokens,answer\n";
  for (const std::string& kind : request.kinds) {
    const Recipe& recipe = find_recipe(kind);
    const auto place = static_cast<std::uint64_t>(&recipe - recipes().data());
    for (const int length : request.lengths) {
      // A stream of its own for each kind and length.
      const Corpus corpus(vocabulary,
                          splitmix(request.seed * 64 + place) + static_cast<std::uint64_t>(length));
      std::string lines;
      for (int number = 0; number < request.count; ++number) {
        const std::string name = fmt::format("{}-{:05}-{:04}.txt", kind, length, number);
        const auto index = static_cast<std::uint64_t>(number);
        std::string text, answer;
        std::size_t tokens = 0;
        if (recipe.needles > 0) {
          const NeedlePrompt prompt = corpus.needle_prompt(index, length, recipe.needles);
          text = prompt_file(prompt, vocabulary);
          tokens = prompt.ids.size();
          answer = vocabulary.text({&prompt.answers[static_cast<std::size_t>(prompt.asked)], 1});
        } else {
          const Sequence sequence = corpus.sequence(kSetStreams + index, length, recipe.mix);
          text = text_file(sequence, vocabulary);
          tokens = sequence.ids.size();
        }
        if (request.json_lines) {
          lines += json_line(text, answer) + "\n";
          continue;
        }
        write(request.folder / name, text);
        table += fmt::format("{},{},{},{}\n", name, kind, tokens, answer);
      }
      if (request.json_lines)
        write(request.folder / fmt::format("{}-{:05}.jsonl", kind, length), lines);
    }
  }
  if (!request.json_lines) write(request.folder / "prompts.csv", table);
}

}  // namespace kvloupe::train
