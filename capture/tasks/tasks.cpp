#include "capture/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "analysis/base/core/error.h"
#include "analysis/math/numeric/splitmix.h"
#include "analysis/study/needle_template.h"
#include "analysis/study/prompt_set.h"

namespace kvloupe {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TaskMaterial, adjectives, nouns, names, pairs, templates,
                                   rule_texts, rule_counts)
namespace {
using Strings = std::vector<std::string>;
using Places = std::vector<std::size_t>;
using fmt::arg;

template <typename List>
const auto& one_of(const List& list, Draws& draws) {
  return list[draws() % list.size()];
}
/// Puts `count` items, drawn without repetition, at the front of the list.
template <typename Item>
void draw_to_front(Draws& draws, std::vector<Item>& list, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::swap(list[i], list[i + draws() % (list.size() - i)]);
}

std::string joined_by(const char* between, const Strings& parts) {
  return fmt::format("{}", fmt::join(parts, between));
}

/// "1. river 2. brave"
std::string numbered(Strings words, const char* between = " ") {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = fmt::format("{}. {}", i + 1, words[i]);
  return joined_by(between, words);
}

template <typename... Args>
TaskPrompt filled(const TaskMaterial& of, const char* name, const Strings& answers,
                  const Strings& needles, const Args&... args) {
  const auto fill = [&](const auto& text) { return fmt::format(fmt::runtime(text), args...); };
  const auto& [context, question, prefix] = of.templates.at(name);
  return {fill(context), fill(question), fill(prefix), answers, needles};
}

/// Something that was not drawn before.
template <typename Make>
std::string fresh(std::set<std::string>& known, const Make& make) {
  std::string made = make();
  while (!known.insert(made).second) made = make();
  return made;
}

std::string letters(Draws& draws, char first, int count) {
  std::string word;
  while (count-- > 0) word += static_cast<char>(first + static_cast<char>(draws() % 26));
  return word;
}

/// `count` of the places 0 … of − 1, ascending: without repetition, where there are enough.
Places places_of(Draws& draws, std::size_t of, std::size_t count) {
  Places places(std::max(of, count));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i % of;
  draw_to_front(draws, places, count);
  places.resize(count);
  std::sort(places.begin(), places.end());
  return places;
}

/// The list with an item before each of the places.
Strings with(const Strings& items, const Places& places, Strings list) {
  for (std::size_t i = items.size(); i-- > 0;)
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(places[i]), items[i]);
  return list;
}

/// `size` words of the text from a sentence on, with the needles between sentences: at depths drawn
/// without repetition from 40 even places, as RULER has them.
std::string text_around(const TaskMaterial& of, Draws& draws, int size, Strings needles) {
  constexpr std::size_t kPlaces = 40;
  Places places = places_of(draws, kPlaces, needles.size());
  const std::size_t start = one_of(of.starts, draws);
  std::string text;
  for (int i = 0; i < size; ++i)
    text += " " + of.words[(start + static_cast<std::size_t>(i)) % of.words.size()];
  const Strings sentences = sentences_of(text);  // each with a blank before it
  for (std::size_t& place : places) {
    const double depth = std::round(100.0 * static_cast<double>(place) / (kPlaces - 1)) / 100.0;
    place = static_cast<std::size_t>(static_cast<double>(sentences.size()) * depth);
  }
  for (std::string& needle : needles) needle.insert(0, " ");
  return joined_by("", with(needles, places, sentences)).substr(1);
}

const std::string kNoise =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

enum class Hay { noise, text, needles };
struct Niah {
  Hay hay;
  int keys = 1, values = 1, asked = 1;
  bool uuid_values = false, uuid_keys = false;
};

TaskPrompt niah_prompt(const Niah& kind, const TaskMaterial& of, Draws draws, int, int size) {
  std::set<std::string> known;
  const auto uuid = [&] {  // version 4
    const std::uint64_t high = draws(), low = draws();
    return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xFFFFU,
                       high & 0xFFFU, ((low >> 48U) & 0x3FFFU) | 0x8000U, low & 0xFFFFFFFFFFFFULL);
  };
  const auto key = [&] {
    if (kind.uuid_keys) return uuid();
    return std::string(one_of(of.adjectives, draws)).append("-").append(one_of(of.nouns, draws));
  };
  const auto value = [&] {
    return kind.uuid_values ? uuid() : std::to_string(1'000'000 + draws() % 9'000'000);
  };
  std::string what = kind.uuid_values ? "uuids" : "numbers";
  const auto needle = [&](const std::string& of_key, const std::string& is) {
    return fmt::format("One of the special magic {} for {} is: {}.", what, of_key, is);
  };
  Strings asked, answers, hidden;
  for (int i = 0; i < kind.keys; ++i) {
    const std::string one = fresh(known, key);
    if (i < kind.asked) asked.push_back(one);
    for (int j = 0; j < kind.values; ++j) {
      const std::string is = fresh(known, value);
      hidden.push_back(needle(one, is));
      if (i < kind.asked) answers.push_back(is);
    }
  }
  const Strings needles(hidden.begin(), hidden.begin() + std::ssize(answers));
  draw_to_front(draws, hidden, hidden.size());
  std::string text;
  if (kind.hay == Hay::text) {
    text = text_around(of, draws, size, hidden);
  } else {
    const Places places = places_of(draws, static_cast<std::size_t>(size), hidden.size());
    Strings lines(static_cast<std::size_t>(size), kNoise);
    for (std::string& line : lines) {
      if (kind.hay == Hay::noise) break;
      const std::string one = fresh(known, key);
      line = needle(one, fresh(known, value));
    }
    text = joined_by("\n", with(hidden, places, lines));
  }
  const bool one = answers.size() == 1;
  if (one) what.pop_back();
  if (asked.size() > 1) asked.back().insert(0, "and ");
  return filled(of, "niah", answers, needles, arg("some", one ? "A" : "Some"), arg("what", what),
                arg("are", one ? "is" : "are"), arg("are_all", one ? "is" : "are all"),
                arg("text", text), arg("query", joined_by(", ", asked)));
}

/// A chain of five variables of so many letters each in `size` lines of noise.
TaskPrompt chain_in_noise(const TaskMaterial& of, Draws draws, int of_letters, int size) {
  constexpr std::size_t kVariables = 5;
  std::set<std::string> known;
  Strings names, chain, needles;
  while (names.size() < kVariables)
    names.push_back(fresh(known, [&] { return letters(draws, 'A', of_letters); }));
  std::string value = std::to_string(10'000 + draws() % 89'999), before = value;
  for (const std::string& name : names) {
    needles.push_back(fmt::format("VAR {} = {}", name, before));
    chain.push_back(needles.back() + (before == value ? "" : " "));  // a blank, as RULER has it
    before = "VAR " + name;
  }
  const auto count = static_cast<std::size_t>(size);
  const Strings lines = with(chain, places_of(draws, count, kVariables), Strings(count, kNoise));
  return filled(of, "vt", names, needles, arg("text", joined_by("\n", lines)), arg("value", value));
}

/// The chain after a worked example of at most 500 tokens, and in a short prompt of at most a
/// quarter of the length.
TaskPrompt vt_prompt(const TaskMaterial& of, Draws draws, int, int size) {
  const auto example_of = [&](int lines) { return chain_in_noise(of, draws, 3, lines); };
  const int lines = largest_size(1, 1, [&](int tried) {
    return of.tokens(example_of(tried).text()) <= std::min(500, of.length / 4);
  });
  const TaskPrompt example = example_of(std::max(lines, 1));
  TaskPrompt made = example;
  while (made.question == example.question) made = chain_in_noise(of, Draws(draws()), 5, size);
  made.context = example.text() + " " + joined_by(" ", example.answers) + "\n\n" + made.context;
  return made;
}

TaskPrompt cwe_prompt(const TaskMaterial& of, Draws draws, int, int size) {
  constexpr std::size_t kCommon = 10, kPlain = 60;
  const bool is_short = of.length < 4096;
  const std::size_t example_words = is_short ? 20 : 40;
  const std::size_t end = example_words + static_cast<std::size_t>(size);
  Strings words = of.nouns;
  words.insert(words.end(), of.adjectives.begin(), of.adjectives.end());
  draw_to_front(draws, words, words.size());
  // Beyond the list: two of its words, none of which is asked for.
  const std::size_t rest = words.size() - kPlain;
  for (std::size_t i = 0; words.size() < end; ++i)
    words.push_back(words[kPlain + i % rest] + "-" +
                    words[kPlain + (i + 1 + i / rest % (rest - 1)) % rest]);
  // A list of words, the first ten of them `often` times.
  const auto list = [&](std::size_t begin, std::size_t end, std::size_t often, std::size_t seldom) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(begin);
    Strings all;
    for (std::size_t i = begin; i < end; ++i)
      all.insert(all.end(), i < begin + kCommon ? often : seldom, words[i]);
    draw_to_front(draws, all, all.size());
    return filled(of, "cwe", Strings(first, first + kCommon), {}, arg("text", numbered(all)));
  };
  const TaskPrompt example = list(0, example_words, is_short ? 3 : 10, is_short ? 1 : 3);
  TaskPrompt made = list(example_words, end, is_short ? 6 : 30, is_short ? 1 : 3);
  made.context = example.text() + " " + numbered(example.answers) + "\n" + made.context;
  return made;
}

TaskPrompt fwe_prompt(const TaskMaterial& of, Draws draws, int, int size) {
  constexpr double kZeta = 1.6449340668482264;                // π²/6, ζ of 2
  const int vocabulary = std::max((of.length - 50) / 50, 5);  // without the answer's 50 tokens
  std::set<std::string> known;
  Strings text, answers;
  for (int rank = 1; rank <= vocabulary; ++rank) {
    const auto coded = [&] { return letters(draws, 'a', 6); };
    const std::string word = rank == 1 ? "..." : fresh(known, coded);
    if (rank > 1 && rank <= 4) answers.push_back(word);
    text.insert(text.end(), static_cast<std::size_t>(size / kZeta / rank / rank), word);
  }
  draw_to_front(draws, text, text.size());
  return filled(of, "fwe", answers, {}, arg("text", joined_by(" ", text)));
}

TaskPrompt paraphrase_prompt(const TaskMaterial& of, Draws draws, int number, int size) {
  const auto& [needle, question] = of.pairs[static_cast<std::size_t>(number) % of.pairs.size()];
  const std::string& name = one_of(of.names, draws);
  const Strings needles = {fmt::format(fmt::runtime(needle), arg("name", name))};
  return filled(of, "paraphrase", {name}, needles, arg("question", question),
                arg("text", text_around(of, draws, size, needles)));
}

TaskPrompt instructions_prompt(const TaskMaterial& of, Draws draws, int number, int size) {
  std::vector<AnswerRuleKind> kinds(answer_rule_kinds().begin(), answer_rule_kinds().end());
  draw_to_front(draws, kinds, kinds.size());
  std::vector<AnswerRule> rules;
  Strings needles;
  kinds.resize(static_cast<std::size_t>(number % 6 + 1));
  for (const AnswerRuleKind& kind : kinds) {
    AnswerRule rule{kind.name};
    if (kind.needs("{text}")) rule.text = one_of(of.rule_texts.at(kind.name), draws);
    if (kind.needs("{count}")) rule.count = one_of(of.rule_counts.at(kind.name), draws);
    rules.push_back(rule);
    needles.push_back(instruction_of(rule));
  }
  TaskPrompt made = filled(of, "instructions", {}, needles, arg("rules", numbered(needles, "\n")),
                           arg("text", text_around(of, draws, size, {})));
  made.rules = rules;
  return made;
}
}  // namespace

TaskMaterial read_task_material(const std::optional<std::filesystem::path>& filler, int length,
                                const Tokenizer& tokenizer) {
  TaskMaterial of = nlohmann::json::parse(task_words());
  of.length = length;
  of.tokens = [&](const std::string& text) {
    return static_cast<int>(tokenizer.encode(text).size()) + (tokenizer.bos() ? 1 : 0);
  };
  for (const std::string& one : filler ? read_filler(*filler) : sentences_of(task_manual())) {
    of.starts.push_back(of.words.size());
    std::istringstream words(one);
    for (std::string word; words >> word;) of.words.push_back(word);
  }
  return of;
}

std::span<const PromptTask> task_catalog() {
  const auto niah = [](const Niah& kind) { return std::bind_front(niah_prompt, kind); };
  static const std::vector<PromptTask> all = {
      {"niah_single_1", 128, 1, niah({Hay::noise})},
      {"niah_single_2", 128, 1, niah({Hay::text})},
      {"niah_single_3", 128, 1, niah({Hay::text, 1, 1, 1, true})},
      {"niah_multikey_1", 128, 1, niah({Hay::text, 4})},
      {"niah_multikey_2", 128, 1, niah({Hay::needles})},
      {"niah_multikey_3", 128, 1, niah({Hay::needles, 1, 1, 1, true, true})},
      {"niah_multivalue", 128, 1, niah({Hay::text, 1, 4})},
      {"niah_multiquery", 128, 1, niah({Hay::text, 4, 1, 4})},
      {"vt", 30, 1, vt_prompt},
      {"cwe", 120, 11, cwe_prompt},
      {"fwe", 50, 74, fwe_prompt},  // from 74 words on no rank has the count of the next one asked
      {"paraphrase", 16, 1, paraphrase_prompt},
      {"instructions", 128, 1, instructions_prompt},
  };
  return all;
}

int largest_size(int smallest, int guess, const std::function<bool(int)>& fits) {
  if (!fits(smallest)) return smallest - 1;
  int low = smallest, high = 0;  // fits; does not, 0: not known
  const auto ask = [&](int size) { (fits(size) ? low : high) = size; };
  guess -= guess / 16;
  if (guess > low) ask(guess);
  for (int step = 1; high == 0; step *= 2) ask(low + step);
  while (high - low > 1) ask(low + (high - low) / 2);
  return low;
}

std::string make_prompts(const PromptTask& task, const TaskMaterial& of, int count,
                         std::uint64_t seed) {
  constexpr unsigned kMostTries = 100;
  for (const char c : task.name) seed = splitmix(seed + static_cast<unsigned char>(c));
  std::string lines;
  int size = task.smallest;
  unsigned tries = 0;
  for (int number = 0; number < count;) {
    const Draws draws(splitmix(splitmix(seed + static_cast<unsigned>(number)) + tries));
    const auto tokens = [&](int units) {
      return of.tokens(task.prompt(of, draws, number, units).text()) + task.answer_tokens;
    };
    size = largest_size(task.smallest, size, [&](int tried) { return tokens(tried) <= of.length; });
    if (size < task.smallest)
      throw UsageError(fmt::format("--length {}: {} needs at least {} tokens", of.length, task.name,
                                   tokens(task.smallest)));
    const TaskPrompt prompt = task.prompt(of, draws, number, size);
    nlohmann::ordered_json line = {{"index", number}, {"task", task.name}};
    line["input"] = prompt.context + prompt.question;
    line["answer_prefix"] = prompt.prefix;
    line["outputs"] = prompt.answers;
    if (!prompt.needles.empty()) line["needle"] = prompt.needles;
    if (!prompt.rules.empty()) line["rules"] = prompt.rules;
    line["scoring"] = prompt.rules.empty() ? "answer_all" : "answer_rules";
    line["max_new_tokens"] = task.answer_tokens;
    line["length"] = tokens(size);
    const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const std::string doubt = parse_prompt_line({task.name, task.name, number}, text).doubt;
    if (!doubt.empty() && ++tries == kMostTries)
      throw WorkError(task.name + ": " + doubt + ", whatever is drawn; take another --filler");
    if (!doubt.empty()) continue;
    lines += text + "\n";
    ++number;
    tries = 0;
  }
  return lines;
}

}  // namespace kvloupe
