#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "analysis/error.h"
#include "trainer/corpus.h"
#include "trainer/language.h"
#include "trainer/words.h"

namespace kvloupe::train {
namespace {

TEST(Language, SharesSumToOneAndEverythingLeadsToAFullStop) {
  const Vocabulary vocabulary;
  const Language language(vocabulary);
  const TokenId stop = vocabulary.mark('.');
  int words = 0;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const auto& followers = language.followers(id);
    if (followers.empty()) continue;
    ++words;
    double total = 0.0;
    for (const auto& follower : followers) {
      EXPECT_GT(follower.weight, 0.0);
      EXPECT_FALSE(language.followers(follower.id).empty()) << vocabulary.text({&follower.id, 1});
      total += follower.weight;
    }
    EXPECT_NEAR(total, 1.0, 1e-9);
  }
  const auto sizes =
      names().size() + things().size() + places().size() + adjectives().size() + verbs().size();
  EXPECT_GT(words, static_cast<int>(sizes));
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    TokenId word = language.next(stop, random);
    for (int length = 1; word != stop; ++length) {
      ASSERT_LT(length, 200);
      word = language.next(word, random);
    }
  }
  EXPECT_THROW(language.next(Vocabulary::kBos, random), WorkError);
}

TEST(Language, DrawsByTheShares) {
  const Vocabulary vocabulary;
  const Language language(vocabulary);
  const TokenId word = vocabulary.word("kettle");
  Random random(5);
  constexpr int kDraws = 20000;
  std::map<TokenId, int> seen;
  for (int i = 0; i < kDraws; ++i) ++seen[language.next(word, random)];
  for (const auto& follower : language.followers(word)) {
    const double share = follower.weight;
    const double deviation = std::sqrt(share * (1.0 - share) / kDraws);
    EXPECT_NEAR(seen[follower.id] / double{kDraws}, share, 4.0 * deviation);
  }
}

TEST(Language, WritesAnBeforeVowels) {
  const Vocabulary vocabulary;
  const Language language(vocabulary);
  for (const char* article : {"a", "an"}) {
    for (const auto& follower : language.followers(vocabulary.word(article))) {
      const std::string text = vocabulary.text({&follower.id, 1});
      const bool vowel = std::string("aeiou").find(text.front()) != std::string::npos;
      EXPECT_EQ(vowel, std::string(article) == "an") << text;
    }
  }
}

/// Tales alone: no needles, ledgers, quotes.
const Mix kTales = {.repetition = 0.0,
                    .cipher = 0.0,
                    .ledger = 0.0,
                    .story = 0.0,
                    .tale = 1.0,
                    .fact = 0.0,
                    .needle = 0.0,
                    .recall = 0.0};

/// Words before the last one tell nothing about the next: after each pair (u, v) the next word has
/// the distribution it has after v. Compared by Pearson's chi-squared statistic, whose mean is its
/// degrees of freedom where that holds.
TEST(Tales, NextWordFollowsFromTheCurrentWordAlone) {
  const Vocabulary vocabulary;
  const Language language(vocabulary);
  const Corpus corpus(vocabulary, 17);
  const TokenId the = vocabulary.word("the");
  const auto kind = [&](TokenId id) {  // adjectives, things or places, as "the" is followed by
    for (int i = 0; const auto list : {adjectives(), things(), places()}) {
      if (id >= vocabulary.word(list.front()) && id <= vocabulary.word(list.back())) return i;
      ++i;
    }
    return -1;
  };
  std::map<TokenId, std::vector<double>> counts;  // [word before "the"][kind after it]
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Sequence sequence = corpus.sequence(index, 400, kTales);
    for (std::size_t t = 2; t < sequence.ids.size(); ++t) {
      if (sequence.ids[t - 1] != the) continue;
      auto& row = counts.try_emplace(sequence.ids[t - 2], 3, 0.0).first->second;
      ASSERT_GE(kind(sequence.ids[t]), 0);
      row[static_cast<std::size_t>(kind(sequence.ids[t]))] += 1.0;
    }
  }
  std::vector<double> expected(3, 0.0);
  for (const auto& follower : language.followers(the)) {
    expected[static_cast<std::size_t>(kind(follower.id))] += follower.weight;
  }
  double statistic = 0.0;
  double freedom = 0.0;
  for (const auto& [before, row] : counts) {
    const double total = row[0] + row[1] + row[2];
    if (total < 30.0) continue;
    freedom += 2.0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double mean = total * expected[i];
      statistic += (row[i] - mean) * (row[i] - mean) / mean;
    }
  }
  EXPECT_GT(freedom, 40.0);
  EXPECT_NEAR(statistic, freedom, 4.0 * std::sqrt(2.0 * freedom));
}

TEST(Tales, TriggersRepeatWhatTheySay) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 17);
  const TokenId again = vocabulary.word("again");
  const std::map<TokenId, std::span<const std::string_view>> asked = {
      {vocabulary.word("Who"), names()},
      {vocabulary.word("What"), things()},
      {vocabulary.word("Where"), places()}};
  int echoes = 0;
  std::map<TokenId, int> asides;
  for (std::uint64_t index = 0; index < 50; ++index) {
    const Sequence sequence = corpus.sequence(index, 400, kTales);
    const auto& ids = sequence.ids;
    for (std::size_t t = 2; t < ids.size(); ++t) {
      const bool aside = ids[t - 1] == vocabulary.mark('?');
      EXPECT_EQ(sequence.roles[t] == Role::quoted, aside || ids[t - 1] == again);
      if (ids[t - 1] == again) {
        EXPECT_EQ(ids[t], ids[t - 2]);
        ++echoes;
      }
      if (!aside) continue;
      std::set<TokenId> kind;
      for (const auto word : asked.at(ids[t - 2])) kind.insert(vocabulary.word(word));
      std::size_t last = t - 2;
      while (!kind.contains(ids[last])) ASSERT_GT(last--, 0U);
      EXPECT_EQ(ids[t], ids[last]);
      ++asides[ids[t - 2]];
    }
  }
  EXPECT_GT(echoes, 300);
  ASSERT_EQ(asides.size(), 3U);
  for (const auto& [question, times] : asides) EXPECT_GT(times, 50);
}

}  // namespace
}  // namespace kvloupe::train
