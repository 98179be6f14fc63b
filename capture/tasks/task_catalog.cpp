#include "capture/tasks/task_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <sstream>

#include "analysis/assets.h"
#include "analysis/prompt_file.h"
#include "analysis/study/needle_template.h"

namespace kvloupe {

namespace {
using Strings = std::vector<std::string>;

const std::string kNoise =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

std::string joined_by(const Strings& parts, const char* between) {
  return fmt::format("{}", fmt::join(parts, between));
}

/// "1. river 2. brave"
std::string numbered(const Strings& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += fmt::format("{}{}. {}", i == 0 ? "" : " ", i + 1, words[i]);
  return text;
}

/// Something that was not drawn before.
template <typename Make>
std::string fresh(std::set<std::string>& known, const Make& make) {
  std::string made = make();
  while (!known.insert(made).second) made = make();
  return made;
}

std::string adjective_noun(const TaskMaterial& of, Draws& draws) {
  const std::string& adjective = draws.one_of(of.adjectives);
  return adjective + "-" + draws.one_of(of.nouns);
}

/// A UUID of version 4.
std::string uuid(Draws& draws) {
  const std::uint64_t high = draws.next(), low = draws.next();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xFFFFU,
                     high & 0xFFFU, ((low >> 48U) & 0x3FFFU) | 0x8000U, low & 0xFFFFFFFFFFFFULL);
}

/// `size` words of the text from a sentence on, with the needles between sentences: at depths drawn
/// without repetition from 40 even places, as RULER has them.
std::string text_around(const TaskMaterial& of, Draws& draws, int size, const Strings& needles) {
  constexpr std::size_t kPlaces = 40;
  std::vector<std::size_t> places(kPlaces);
  for (std::size_t i = 0; i < kPlaces; ++i) places[i] = i;
  draws.draw_to_front(places, needles.size());
  std::sort(places.begin(), places.begin() + std::ssize(needles));
  const std::size_t start = draws.one_of(of.starts);
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i)
    text += (i == 0 ? "" : " ") + of.words[(start + i) % of.words.size()];
  const Strings sentences = sentences_of(text);  // each but the first begins with its white space
  Strings parts;
  std::size_t done = 0;
  const auto add_until = [&](std::size_t end) {
    std::string part;
    for (; done < end; ++done) part += sentences[done];
    if (!part.empty()) parts.push_back(part.substr(part.front() == ' ' ? 1 : 0));
  };
  for (std::size_t i = 0; i < needles.size(); ++i) {
    const double depth = std::round(100.0 * static_cast<double>(places[i]) / (kPlaces - 1));
    add_until(static_cast<std::size_t>(static_cast<double>(sentences.size()) * (depth / 100.0)));
    parts.push_back(needles[i]);
  }
  add_until(sentences.size());
  return joined_by(parts, " ");
}

// ---- needles ----

enum class Hay { noise, text, needles };
struct Niah {
  Hay hay;
  bool uuid_keys, uuid_values;
  int keys, values, asked;
};

TaskPrompt niah_prompt(const Niah& kind, const TaskMaterial& of, Draws draws, int size) {
  std::set<std::string> known;
  const auto key = [&] {
    return fresh(known, [&] { return kind.uuid_keys ? uuid(draws) : adjective_noun(of, draws); });
  };
  const auto value = [&] {
    return fresh(known, [&] {
      return kind.uuid_values ? uuid(draws) : std::to_string(draws.between(1'000'000, 9'999'999));
    });
  };
  std::string what = kind.uuid_values ? "uuids" : "numbers";
  const auto needle = [&](const std::string& of_key, const std::string& is) {
    return fmt::format("One of the special magic {} for {} is: {}.", what, of_key, is);
  };
  TaskPrompt made;
  Strings asked, hidden;
  for (int i = 0; i < kind.keys; ++i) {
    const std::string one = key();
    if (i < kind.asked) asked.push_back(one);
    for (int j = 0; j < kind.values; ++j) {
      const std::string is = value();
      hidden.push_back(needle(one, is));
      if (i >= kind.asked) continue;
      made.answers.push_back(is);
      made.needles.push_back(hidden.back());
    }
  }
  draws.shuffle(hidden);
  std::string text;
  if (kind.hay == Hay::text) {
    text = text_around(of, draws, size, hidden);
  } else {
    // Before these lines; all places are drawn before the lines are.
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < hidden.size(); ++i)
      places.push_back(draws.below(static_cast<std::size_t>(size)));
    Strings lines;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      for (std::size_t j = 0; j < hidden.size(); ++j)
        if (places[j] == i) lines.push_back(hidden[j]);
      if (kind.hay == Hay::noise) {
        lines.push_back(kNoise);
      } else {
        const std::string one = key();
        lines.push_back(needle(one, value()));
      }
    }
    text = joined_by(lines, "\n");
  }
  const bool one = kind.asked * kind.values == 1;
  const std::string words = one ? what.substr(0, what.size() - 1) : what;
  const std::string last = asked.back();
  asked.pop_back();
  const std::string query = asked.empty() ? last : joined_by(asked, ", ") + ", and " + last;
  made.context = fmt::format(
      "{} special magic {} {} hidden within the following text. Make sure to memorize it. I will "
      "quiz you about the {} afterwards.\n{}\n",
      one ? "A" : "Some", words, one ? "is" : "are", words, text);
  made.question = fmt::format("What {} the special magic {} for {} mentioned in the provided text?",
                              one ? "is" : "are all", words, query);
  made.prefix = fmt::format(" The special magic {} for {} mentioned in the provided text {}", words,
                            query, one ? "is" : "are");
  return made;
}

PromptTask niah(const char* name, Niah kind) {
  return {name, 128, "answer_all", 1,
          [kind](const TaskMaterial& of, const Draws& draws, int, int size) {
            return niah_prompt(kind, of, draws, size);
          }};
}

// ---- variables ----

/// A chain of five variables of `letters` letters each in `size` lines of noise.
TaskPrompt chain_in_noise(Draws& draws, int letters, int size) {
  constexpr std::size_t kVariables = 5;
  TaskPrompt made;
  std::set<std::string> known;
  for (std::size_t i = 0; i < kVariables; ++i)
    made.answers.push_back(fresh(known, [&] { return draws.letters('A', letters); }));
  const int value = draws.between(10'000, 99'998);
  // RULER ends each line but the first with a blank.
  Strings chain = {fmt::format("VAR {} = {}", made.answers[0], value)};
  for (std::size_t i = 1; i < kVariables; ++i)
    chain.push_back(fmt::format("VAR {} = VAR {} ", made.answers[i], made.answers[i - 1]));
  for (const std::string& link : chain)
    made.needles.push_back(link.substr(0, link.find_last_not_of(' ') + 1));
  // Different places; with fewer lines than variables, any.
  const auto count = static_cast<std::size_t>(size);
  std::vector<std::size_t> places(std::max(count, kVariables));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i % count;
  draws.draw_to_front(places, kVariables);
  std::sort(places.begin(), places.begin() + kVariables);
  Strings lines;
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (; next < kVariables && places[next] == i; ++next) lines.push_back(chain[next]);
    lines.push_back(kNoise);
  }
  made.context =
      "Memorize and track the chain(s) of variable assignment hidden in the following "
      "text.\n\n" +
      joined_by(lines, "\n") + "\n";
  made.question = fmt::format(
      "Question: Find all variables that are assigned the value {} in the text above.", value);
  made.prefix = fmt::format(
      " Answer: According to the chain(s) of variable assignment in the text above, {} variables "
      "are assigned the value {}, they are: ",
      kVariables, value);
  return made;
}

/// The chain after a worked example of at most 500 tokens, and in a short prompt of at most a
/// quarter of the length.
TaskPrompt vt_prompt(const TaskMaterial& of, Draws draws, int, int size) {
  constexpr int kExampleLetters = 3;
  const auto text = [](const TaskPrompt& one) { return one.context + one.question + one.prefix; };
  const Draws before = draws;
  const int lines = std::max(1, largest_size(1, 1, [&](int one) {
                               Draws again = before;
                               const TaskPrompt tried = chain_in_noise(again, kExampleLetters, one);
                               return of.tokens(text(tried)) <= std::min(500, of.length / 4);
                             }));
  const TaskPrompt example = chain_in_noise(draws, kExampleLetters, lines);
  TaskPrompt made = chain_in_noise(draws, 5, size);
  while (made.question == example.question) made = chain_in_noise(draws, 5, size);
  made.context = text(example) + " " + joined_by(example.answers, " ") + "\n\n" + made.context;
  return made;
}

// ---- words that are counted ----

/// A numbered list of words: the first ten of them `often` times, the others `seldom` times.
Strings repeated(const Strings& words, int often, int seldom, Draws& draws) {
  Strings list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list.insert(list.end(), static_cast<std::size_t>(i < 10 ? often : seldom), words[i]);
  draws.shuffle(list);
  return list;
}

TaskPrompt cwe_prompt(const TaskMaterial& of, Draws draws, int, int size) {
  constexpr std::size_t kCommon = 10, kPlain = 60;
  const bool is_short = of.length < 4096;
  const std::size_t example_words = is_short ? 20 : 40;
  Strings words = of.nouns;
  words.insert(words.end(), of.adjectives.begin(), of.adjectives.end());
  draws.shuffle(words);
  // Beyond the list: two of its words, none of which is asked for.
  const std::size_t rest = words.size() - kPlain;
  const std::size_t wanted = example_words + static_cast<std::size_t>(size);
  for (std::size_t i = 0; words.size() < wanted; ++i) {
    words.push_back(words[kPlain + i % rest] + "-" +
                    words[kPlain + (i + 1 + i / rest % (rest - 1)) % rest]);
  }
  const auto part = [&](std::size_t begin, std::size_t count) {
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(begin);
    return Strings(at, at + static_cast<std::ptrdiff_t>(count));
  };
  TaskPrompt made;
  made.question = "Question: What are the 10 most common words in the above list?";
  made.prefix = " Answer: The top 10 words that appear most often in the list are:";
  const auto text = [](const Strings& list) {
    return "Below is a numbered list of words. In these words, some appear more often than others. "
           "Memorize the ones that appear most often.\n" +
           numbered(list) + "\n";
  };
  const Strings example = part(0, example_words);
  const Strings list = part(example_words, static_cast<std::size_t>(size));
  made.answers = part(example_words, kCommon);
  made.context = text(repeated(example, is_short ? 3 : 10, is_short ? 1 : 3, draws)) +
                 made.question + made.prefix + " " + numbered(part(0, kCommon)) + "\n" +
                 text(repeated(list, is_short ? 6 : 30, is_short ? 1 : 3, draws));
  return made;
}

TaskPrompt fwe_prompt(const TaskMaterial& of, Draws draws, int, int size) {
  constexpr int kAnswerTokens = 50, kTokensOfWord = 50, kLetters = 6;
  constexpr double kZeta = std::numbers::pi * std::numbers::pi / 6.0;  // of 2
  const int vocabulary = std::max((of.length - kAnswerTokens) / kTokensOfWord, 5);
  std::set<std::string> known;
  Strings text;
  TaskPrompt made;
  for (int rank = 1; rank <= vocabulary; ++rank) {
    const std::string word =
        rank == 1 ? "..." : fresh(known, [&] { return draws.letters('a', kLetters); });
    if (rank > 1 && rank <= 4) made.answers.push_back(word);
    const double share = 1.0 / (static_cast<double>(rank) * rank) / kZeta;
    text.insert(text.end(), static_cast<std::size_t>(size * share), word);
  }
  draws.shuffle(text);
  made.context =
      "Read the following coded text and track the frequency of each coded word. Find "
      "the three most frequently appeared coded words. " +
      joined_by(text, " ") + "\n";
  made.question =
      "Question: Do not provide any explanation. Please ignore the dots '....'. What are the three "
      "most frequently appeared words in the above coded text?";
  made.prefix =
      " Answer: According to the coded text above, the three most frequently appeared "
      "words are:";
  return made;
}

// ---- kvloupe's own ----

TaskPrompt paraphrase_prompt(const TaskMaterial& of, Draws draws, int number, int size) {
  const auto& [needle, question] = of.pairs[static_cast<std::size_t>(number) % of.pairs.size()];
  TaskPrompt made;
  made.answers = {draws.one_of(of.names)};
  made.needles = {made.answers[0] + needle.substr(std::string("{name}").size())};
  made.context = "Read the following text and answer the question after it.\n" +
                 text_around(of, draws, size, made.needles) + "\n";
  made.question = "Question: " + question + " Give a name.";
  made.prefix = " Answer:";
  return made;
}

TaskPrompt rules_prompt(const TaskMaterial& of, Draws draws, int number, int size) {
  constexpr int kMostRules = 6;
  std::vector<AnswerRuleKind> kinds(answer_rule_kinds().begin(), answer_rule_kinds().end());
  draws.shuffle(kinds);
  TaskPrompt made;
  std::string text;
  for (const AnswerRuleKind& kind : kinds) {
    if (std::ssize(made.rules) > number % kMostRules) break;
    if (std::any_of(made.rules.begin(), made.rules.end(),
                    [&](const AnswerRule& rule) { return rule.rule == kind.unlike; }))
      continue;
    AnswerRule rule{kind.name};
    if (kind.needs("{text}"))
      rule.text = kind.texts.empty() ? draws.one_of(of.nouns) : draws.one_of(kind.texts);
    if (kind.needs("{count}")) rule.count = draws.between(kind.lowest, kind.highest);
    made.rules.push_back(rule);
    made.needles.push_back(instruction_of(rule));
    text += fmt::format("{}. {}\n", made.rules.size(), made.needles.back());
  }
  made.context = "Read the following text. What you write about it must follow these rules:\n" +
                 text + "\n" + text_around(of, draws, size, {}) + "\n";
  made.question = "Write a short summary of the text. Follow all the rules before it.\n";
  return made;
}
}  // namespace

TaskMaterial read_task_material(const std::optional<std::filesystem::path>& filler) {
  TaskMaterial of;
  const auto lists = nlohmann::json::parse(read_text(find_asset("tasks/words.json")));
  lists.at("adjectives").get_to(of.adjectives);
  lists.at("nouns").get_to(of.nouns);
  lists.at("names").get_to(of.names);
  lists.at("pairs").get_to(of.pairs);
  for (const std::string& sentence :
       read_filler(filler ? *filler : find_asset("tasks/manual.txt"))) {
    of.starts.push_back(of.words.size());
    std::istringstream words(sentence);
    of.words.insert(of.words.end(), std::istream_iterator<std::string>(words), {});
  }
  return of;
}

std::span<const PromptTask> task_catalog() {
  static const std::vector<PromptTask> all = {
      niah("niah_single_1", {Hay::noise, false, false, 1, 1, 1}),
      niah("niah_single_2", {Hay::text, false, false, 1, 1, 1}),
      niah("niah_single_3", {Hay::text, false, true, 1, 1, 1}),
      niah("niah_multikey_1", {Hay::text, false, false, 4, 1, 1}),
      niah("niah_multikey_2", {Hay::needles, false, false, 1, 1, 1}),
      niah("niah_multikey_3", {Hay::needles, true, true, 1, 1, 1}),
      niah("niah_multivalue", {Hay::text, false, false, 1, 4, 1}),
      niah("niah_multiquery", {Hay::text, false, false, 4, 1, 4}),
      {"vt", 30, "answer_all", 1, vt_prompt},
      {"cwe", 120, "answer_all", 11, cwe_prompt},
      // From here on the ranks that are asked for have different counts.
      {"fwe", 50, "answer_all", 74, fwe_prompt},
      {"paraphrase", 16, "answer_all", 1, paraphrase_prompt},
      {"instructions", 128, "answer_rules", 1, rules_prompt},
  };
  return all;
}

int largest_size(int smallest, int guess, const std::function<bool(int)>& fits) {
  if (!fits(smallest)) return smallest - 1;
  int low = smallest, high = 0;  // fits; does not, 0: not known
  if (guess > low) (fits(guess) ? low : high) = guess;
  for (int step = 1; high == 0; step *= 2) (fits(low + step) ? low : high) = low + step;
  for (int step = 1; high - step > low; step *= 2) {
    const int tried = high - step;
    (fits(tried) ? low : high) = tried;
    if (low == tried) break;
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace kvloupe
