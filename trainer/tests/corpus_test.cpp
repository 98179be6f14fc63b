#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "analysis/error.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"
#include "tests/support/temporary_folder.h"
#include "trainer/corpus.h"
#include "trainer/prompt_file.h"
#include "trainer/tokenizer_model.h"

namespace kvloupe::train {
namespace {

const Mix kEverything = {.drill = 0.1, .repetition = 0.2, .paragraph = 0.2};

TEST(Vocabulary, HoldsEveryPieceOnce) {
  const Vocabulary vocabulary;
  std::set<std::string> seen;
  for (const Piece& piece : vocabulary.pieces()) EXPECT_TRUE(seen.insert(piece.text).second);
  EXPECT_EQ(vocabulary.text(std::vector<TokenId>{Vocabulary::kBos, vocabulary.word("Ada"),
                                                 vocabulary.mark(','), vocabulary.number(47),
                                                 Vocabulary::kNewline, vocabulary.word("barn")}),
            "Ada, 47\n barn");
  EXPECT_THROW(vocabulary.word("xylophone"), WorkError);
}

TEST(Corpus, FollowsFromSeedAndIndex) {
  const Vocabulary vocabulary;
  const Corpus one(vocabulary, 3);
  const Corpus same(vocabulary, 3);
  const Corpus other(vocabulary, 4);
  EXPECT_EQ(one.sequence(5, 300, kEverything).ids, same.sequence(5, 300, kEverything).ids);
  EXPECT_EQ(one.needle_prompt(5, 300, 2).ids, same.needle_prompt(5, 300, 2).ids);
  EXPECT_NE(one.sequence(5, 300, kEverything).ids, one.sequence(6, 300, kEverything).ids);
  EXPECT_NE(one.sequence(5, 300, kEverything).ids, other.sequence(5, 300, kEverything).ids);
}

TEST(Corpus, StartsWithBosAndHasTheLengthAskedFor) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  for (const int length : {2, 17, 500}) {
    for (std::uint64_t index = 0; index < 50; ++index) {
      const Sequence sequence = corpus.sequence(index, length, kEverything);
      ASSERT_EQ(sequence.ids.size(), static_cast<std::size_t>(length));
      ASSERT_EQ(sequence.roles.size(), sequence.ids.size());
      EXPECT_EQ(sequence.ids.front(), Vocabulary::kBos);
      for (std::size_t t = 1; t < sequence.ids.size(); ++t) {
        ASSERT_GE(sequence.ids[t], Vocabulary::kNewline);
        ASSERT_LT(sequence.ids[t], vocabulary.size());
      }
    }
  }
}

TEST(Corpus, AnswersFollowFromTheText) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  const Mix needles = {.repetition = 0.0,
                       .cipher = 0.5,
                       .ledger = 0.5,
                       .story = 0.5,
                       .fact = 0.0,
                       .needle = 2.0,
                       .recall = 0.4};
  const TokenId numbers = vocabulary.word("numbers");
  const TokenId number = vocabulary.word("number");
  int answers = 0;
  for (std::uint64_t index = 0; index < 40; ++index) {
    const Sequence sequence = corpus.sequence(index, 400, needles);
    std::map<TokenId, TokenId> said;
    for (std::size_t t = 5; t < sequence.ids.size(); ++t) {
      // "... numbers for WORD is: NUMBER" states it, "... number for WORD is: NUMBER" answers.
      const TokenId word = sequence.ids[t - 3];
      if (sequence.roles[t] == Role::answer) {
        ASSERT_EQ(sequence.ids[t - 5], number);
        ASSERT_TRUE(said.contains(word));
        EXPECT_EQ(sequence.ids[t], said[word]);
        ++answers;
      } else if (sequence.ids[t - 5] == numbers && sequence.ids[t - 1] == vocabulary.mark(':')) {
        EXPECT_FALSE(said.contains(word));
        said[word] = sequence.ids[t];
      }
    }
  }
  EXPECT_GT(answers, 100);
}

/// A quiz states several needles and then asks for each once, in another order: no answer before
/// helps with the next.
TEST(Corpus, AQuizAsksForEachOfItsNeedlesOnce) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  const Mix quiz = {.repetition = 0.0, .quiz = 1.0};
  int rounds_in_another_order = 0;
  for (std::uint64_t index = 0; index < 40; ++index) {
    const Sequence sequence = corpus.sequence(index, 600, quiz);
    std::map<TokenId, TokenId> said;
    std::vector<TokenId> stated;
    std::vector<TokenId> asked;
    for (std::size_t t = 5; t < sequence.ids.size(); ++t) {
      const TokenId word = sequence.ids[t - 3];
      if (sequence.roles[t] == Role::answer) {
        ASSERT_TRUE(said.contains(word));
        EXPECT_EQ(sequence.ids[t], said[word]);
        EXPECT_EQ(std::count(asked.begin(), asked.end(), word), 0);
        asked.push_back(word);
      } else if (sequence.ids[t - 5] == vocabulary.word("numbers") &&
                 sequence.ids[t - 1] == vocabulary.mark(':')) {
        EXPECT_TRUE(said.emplace(word, sequence.ids[t]).second);
        stated.push_back(word);
      }
    }
    ASSERT_GE(stated.size(), 2U);
    if (asked.size() < stated.size()) stated.resize(asked.size());
    if (asked != stated) ++rounds_in_another_order;
  }
  EXPECT_GT(rounds_in_another_order, 30);
  // A long sequence has several quizzes, and ends with other text where no number is free.
  EXPECT_EQ(corpus.sequence(1, 5000, quiz).ids.size(), 5000U);
}

TEST(Corpus, QuotedTokensWereThereBefore) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 3);
  int quoted = 0;
  for (std::uint64_t index = 0; index < 40; ++index) {
    const Sequence sequence = corpus.sequence(index, 300, kEverything);
    std::set<std::pair<TokenId, TokenId>> pairs;
    for (std::size_t t = 1; t < sequence.ids.size(); ++t) {
      const std::pair pair(sequence.ids[t - 1], sequence.ids[t]);
      // The first token of a drill's next round follows on another word.
      if (sequence.roles[t] == Role::quoted && sequence.roles[t - 1] == Role::quoted) {
        ++quoted;
        if (!pairs.contains(pair)) {
          EXPECT_NE(std::find(sequence.ids.begin(), sequence.ids.begin() + static_cast<long>(t),
                              sequence.ids[t]),
                    sequence.ids.begin() + static_cast<long>(t));
        }
      }
      pairs.insert(pair);
    }
  }
  EXPECT_GT(quoted, 500);
}

TEST(NeedlePrompts, SayTheirAnswerWhereTheySayTheyDo) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, 9);
  for (const int needles : {1, 4}) {
    for (std::uint64_t index = 0; index < 30; ++index) {
      const NeedlePrompt prompt = corpus.needle_prompt(index, 300, needles);
      EXPECT_LE(prompt.ids.size(), 300U);
      EXPECT_GT(prompt.ids.size(), 200U);
      ASSERT_EQ(prompt.answer_positions.size(), static_cast<std::size_t>(needles));
      for (std::size_t i = 0; i < prompt.words.size(); ++i) {
        const auto at = static_cast<std::size_t>(prompt.answer_positions[i]);
        EXPECT_EQ(prompt.ids[at], prompt.answers[i]);
        EXPECT_EQ(prompt.ids[at - 3], prompt.words[i]);
        EXPECT_GT(prompt.answer_positions[i], prompt.needle_begin[i]);
        EXPECT_LT(prompt.answer_positions[i], prompt.needle_end[i]);
      }
      const auto question = corpus.question(prompt.words[static_cast<std::size_t>(prompt.asked)]);
      EXPECT_EQ(std::vector<TokenId>(prompt.ids.begin() + prompt.question_begin, prompt.ids.end()),
                question);
    }
  }
  EXPECT_THROW(corpus.needle_prompt(0, 40, 4), WorkError);
}

class TokenizerFile : public ::testing::Test {
 protected:
  TokenizerFile() {
    std::ofstream(folder_ / "tokenizer.model", std::ios::binary) << tokenizer_model(vocabulary_);
    tokenizer_ = open_tokenizer(folder_.path());
  }
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> ids;
    for (const EncodedToken& token : tokenizer_->encode(text)) ids.push_back(token.id);
    return ids;
  }
  kvloupe::test::TemporaryFolder folder_;
  Vocabulary vocabulary_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerFile, GivesTheGeneratorsOwnIds) {
  const Corpus corpus(vocabulary_, 11);
  EXPECT_EQ(tokenizer_->size(), vocabulary_.size());
  EXPECT_EQ(tokenizer_->bos(), Vocabulary::kBos);
  for (std::uint64_t index = 0; index < 60; ++index) {
    const Sequence sequence = corpus.sequence(index, 200, kEverything);
    const std::vector<TokenId> without_bos(sequence.ids.begin() + 1, sequence.ids.end());
    EXPECT_EQ(encode(vocabulary_.text(sequence.ids)), without_bos);
  }
}

TEST_F(TokenizerFile, TakesAnyOtherText) {
  for (const std::string text : {"Zebra crossing, 12345!", "caf\xC3\xA9 \xE2\x82\xAC", "a\tb\nc"}) {
    EXPECT_EQ(tokenizer_->decode(encode(text)), text);
  }
}

TEST_F(TokenizerFile, PromptFilesReadBackWithTheirSegments) {
  const Corpus corpus(vocabulary_, 12);
  const NeedlePrompt prompt = corpus.needle_prompt(1, 300, 4);
  const TokenSequence tokens =
      encode_prompt(parse_prompt(prompt_file(prompt, vocabulary_)), *tokenizer_);
  std::map<std::string, std::vector<TokenId>> parts;
  for (std::size_t t = 0; t < tokens.ids.size(); ++t) {
    if (tokens.ids[t] != Vocabulary::kNewline) {
      parts[tokens.names[tokens.segment[t]]].push_back(tokens.ids[t]);
    }
  }
  const auto question = corpus.question(prompt.words[static_cast<std::size_t>(prompt.asked)]);
  EXPECT_EQ(parts["question"], question);
  std::vector<TokenId> needles;
  for (std::size_t i = 0; i < 4; ++i) {
    needles.insert(needles.end(), prompt.ids.begin() + prompt.needle_begin[i],
                   prompt.ids.begin() + prompt.needle_end[i]);
  }
  EXPECT_EQ(parts["needle"], needles);
}

}  // namespace
}  // namespace kvloupe::train
