#include "capture/eval/haystack.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/math/numeric/splitmix.h"

namespace kvloupe {

namespace {

std::string filled(std::string text, const std::string& mark, const std::string& with) {
  for (std::size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + with.size())) {
    text.replace(at, mark.size(), with);
  }
  return text;
}

}  // namespace

Haystack::Haystack(const NeedleTemplate& needles, const Tokenizer& tokenizer, std::uint64_t seed)
    : template_(needles), tokenizer_(tokenizer), seed_(seed) {
  for (const std::string& sentence : needles.filler) {
    sentence_tokens_.push_back(std::max(tokens_in(sentence), 1));
  }
}

int Haystack::tokens_in(const std::string& text) const {
  return static_cast<int>(tokenizer_.encode(text).size());
}

int Haystack::tokens_around() const {
  const Prompt empty{{}, {{0, "context"}}, {}};
  return static_cast<int>(encode_prompt(empty, tokenizer_).ids.size());
}

std::uint64_t Haystack::random(int length, int sample, std::uint64_t draw) const {
  std::uint64_t state = seed_;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(sample), draw}) {
    state = splitmix(state + part);
  }
  return state;
}

NeedleTask Haystack::needle(const NeedleCase& wanted, int needles) const {
  const auto word_count = template_.words.size();
  if (static_cast<std::size_t>(needles) > word_count) {
    throw UsageError(std::to_string(needles) + " needles: the template has only " +
                     std::to_string(word_count) + " words");
  }
  // Different words: a start and consecutive places after it.
  const std::uint64_t first_word = random(wanted.length, wanted.sample, 1);
  std::vector<std::string> sentences;
  NeedleTask task;
  std::string question;
  int room = wanted.length - tokens_around();
  for (int i = 0; i < needles; ++i) {
    const std::string& word =
        template_.words[(first_word + static_cast<std::uint64_t>(i)) % word_count];
    const auto range = static_cast<std::uint64_t>(template_.highest - template_.lowest) + 1;
    const std::string number = std::to_string(
        template_.lowest +
        static_cast<long>(
            random(wanted.length, wanted.sample, 100 + static_cast<std::uint64_t>(i)) % range));
    sentences.push_back(filled(filled(template_.needle, "{word}", word), "{number}", number));
    room -= tokens_in(sentences.back());
    if (i > 0) continue;
    question = filled(template_.question, "{word}", word);
    room -= tokens_in(question);
    task.answer = number;
  }

  // Filler from a sentence of its own on, as many sentences as there is room for.
  const auto count = template_.filler.size();
  const std::size_t start = random(wanted.length, wanted.sample, 0) % count;
  std::vector<int> ends;  // tokens of the filler up to and with each sentence
  for (int total = 0;;) {
    total += sentence_tokens_[(start + ends.size()) % count];
    if (total > room) break;
    ends.push_back(total);
  }
  if (ends.empty()) {
    throw UsageError("length " + std::to_string(wanted.length) + ": no room for " +
                     std::to_string(needles) +
                     " needles, a question and filler; ask for more tokens");
  }
  const auto place_of = [&](double depth) {
    const double before = depth / 100.0 * ends.back();
    return std::lower_bound(ends.begin(), ends.end(), before) - ends.begin() +
           (before > 0.0 ? 1 : 0);
  };
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> places;  // before which sentence, which one
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const double spread = 100.0 * static_cast<double>(i) / static_cast<double>(needles);
    places.emplace_back(place_of(i == 0 ? wanted.depth : std::fmod(wanted.depth + spread, 100.0)),
                        i);
  }
  std::sort(places.begin(), places.end());

  Prompt prompt;
  const auto add = [&](const char* segment, const std::string& text) {
    if (prompt.segments.empty() || prompt.segments.back().name != segment)
      prompt.segments.push_back({prompt.text.size(), segment});
    prompt.text += text;
  };
  std::size_t next = 0;
  for (std::size_t i = 0; i <= ends.size(); ++i) {
    for (; next < places.size() && places[next].first == static_cast<std::ptrdiff_t>(i); ++next) {
      const std::size_t which = places[next].second;
      add(which == 0 ? "needle" : "distractor", sentences[which]);
    }
    if (i < ends.size()) add("context", template_.filler[(start + i) % count]);
  }
  add("question", question);
  task.tokens = encode_prompt(prompt, tokenizer_);
  const auto asked = std::find(task.tokens.names.begin(), task.tokens.names.end(), "question");
  const auto segment = static_cast<std::uint8_t>(asked - task.tokens.names.begin());
  task.question_begin =
      static_cast<int>(std::find(task.tokens.segment.begin(), task.tokens.segment.end(), segment) -
                       task.tokens.segment.begin());
  return task;
}

TokenSequence Haystack::text(int length, int sample) const {
  const auto count = template_.filler.size();
  const std::size_t start = random(length, sample, 0) % count;
  Prompt prompt;
  prompt.segments.push_back({0, "context"});
  int total = 0;
  for (std::size_t i = 0; total < length + 8; ++i) {
    prompt.text += template_.filler[(start + i) % count];
    total += sentence_tokens_[(start + i) % count];
  }
  TokenSequence tokens = encode_prompt(prompt, tokenizer_);
  const auto wanted = std::min(static_cast<std::size_t>(length), tokens.ids.size());
  tokens.ids.resize(wanted);
  tokens.segment.resize(wanted);
  return tokens;
}

}  // namespace kvloupe
