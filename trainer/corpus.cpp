#include "trainer/corpus.h"

#include <algorithm>

#include "analysis/error.h"
#include "trainer/passages.h"

namespace kvloupe::train {
namespace {

constexpr std::uint64_t kPromptStreams = std::uint64_t{1} << 62;  // apart from those of training

/// The mix of haystacks: no needles but those asked for, and little that repeats.
constexpr Mix kHaystack = {.drill = 0.0,
                           .repetition = 0.0,
                           .cipher = 0.5,
                           .ledger = 0.7,
                           .story = 1.4,
                           .dice = 0.5,
                           .fact = 0.2,
                           .needle = 0.0,
                           .recall = 0.1,
                           .paragraph = 0.15};

}  // namespace

Sequence Corpus::sequence(std::uint64_t index, int length, const Mix& mix) const {
  Random random(seed_, index);
  PassageWriter writer(vocabulary_, language_, random);
  const double kind = random.uniform();
  while (static_cast<int>(writer.ids().size()) < length) {
    if (kind < mix.drill) {
      writer.drill(mix);
    } else if (kind < mix.drill + mix.repetition) {
      writer.repetition(mix);
    } else if (kind < mix.drill + mix.repetition + mix.quiz) {
      writer.quiz(length - static_cast<int>(writer.ids().size()));
    } else {
      writer.passage(mix);
    }
  }
  Sequence sequence{writer.ids(), writer.roles()};
  sequence.ids.resize(static_cast<std::size_t>(length));
  sequence.roles.resize(static_cast<std::size_t>(length));
  return sequence;
}

std::vector<TokenId> Corpus::question(TokenId word) const {
  return PassageWriter::question(vocabulary_, word);
}

NeedlePrompt Corpus::needle_prompt(std::uint64_t index, int length, int needles) const {
  Random random(seed_, kPromptStreams + index);
  PassageWriter haystack(vocabulary_, language_, random);
  NeedlePrompt prompt;
  std::vector<std::vector<TokenId>> sentences;
  int needed = 0;
  for (int i = 0; i < needles; ++i) {
    const TokenId word = haystack.fresh_needle_word();
    const int number = haystack.fresh_needle_number();
    prompt.words.push_back(word);
    prompt.answers.push_back(vocabulary_.number(number));
    sentences.push_back(PassageWriter::needle_sentence(vocabulary_, word, number));
    needed += static_cast<int>(sentences.back().size());
  }
  prompt.asked = random.below(std::max(1, needles));
  const auto question = Corpus::question(prompt.words.at(static_cast<std::size_t>(prompt.asked)));
  needed += static_cast<int>(question.size());
  const int room = length - needed;
  if (room < 1) {
    throw WorkError("a prompt of " + std::to_string(length) + " tokens has no room for " +
                    std::to_string(needles) + " needles; ask for a longer one");
  }

  while (static_cast<int>(haystack.ids().size()) < room) haystack.passage(kHaystack);
  std::vector<int> starts = haystack.sentence_starts();
  std::erase_if(starts, [&](int start) { return start > room; });
  const int end = starts.back();

  // Depths: one sentence start for each needle, ascending; two needles may share one.
  std::vector<int> depths;
  for (int i = 0; i < needles; ++i) {
    depths.push_back(
        starts[static_cast<std::size_t>(random.below(static_cast<int>(starts.size())))]);
  }
  std::sort(depths.begin(), depths.end());

  std::size_t next = 0;
  for (int i = 0; i <= end; ++i) {
    while (next < depths.size() && depths[next] == i) {
      prompt.needle_begin.push_back(static_cast<int>(prompt.ids.size()));
      prompt.ids.insert(prompt.ids.end(), sentences[next].begin(), sentences[next].end());
      prompt.needle_end.push_back(static_cast<int>(prompt.ids.size()));
      prompt.answer_positions.push_back(static_cast<int>(prompt.ids.size()) - 2);
      ++next;
    }
    if (i < end) prompt.ids.push_back(haystack.ids()[static_cast<std::size_t>(i)]);
  }
  prompt.question_begin = static_cast<int>(prompt.ids.size());
  prompt.ids.insert(prompt.ids.end(), question.begin(), question.end());
  return prompt;
}

}  // namespace kvloupe::train
