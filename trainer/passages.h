#pragma once
// The passages that sequences consist of. One writer writes one sequence and remembers it, so that
// later passages can quote it and ask about it.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "trainer/corpus.h"
#include "trainer/language.h"

namespace kvloupe::train {

class PassageWriter {
 public:
  PassageWriter(const Vocabulary& vocabulary, const Language& language, Random& random);

  /// Writes one passage drawn from the mix (not the kinds that fill a whole sequence).
  void passage(const Mix& mix);
  /// Writes the sequence's one segment of random words once more.
  void drill(const Mix& mix);
  /// Writes another segment, or repeats an earlier one, whole or from the middle.
  void repetition(const Mix& mix);

  void cipher();
  void ledger();
  /// One to three sentences of fixed patterns about the sequence's people.
  void story();
  /// One to three sentences of the language, in which each word follows from the previous one. The
  /// word "again" repeats the word before it, and sometimes a question asks who, what or where the
  /// last sentence was about.
  void tale(const Mix& mix);
  /// A run of digits or colours that cannot be predicted. There are few different words, so copying
  /// one from elsewhere is usually wrong and right only by chance.
  void dice();
  void fact();
  /// Draws a word that has no number yet and writes its needle. Returns the number's index.
  int needle();
  /// Several needles, one after the other, then a question about each, in random order; as many as
  /// fit into about `room` tokens, at least 2 and at most 12. An earlier answer never answers a
  /// later question.
  void quiz(int room);
  /// Quotes a cipher or ledger, or asks for a fact or needle. False if there is nothing to recall.
  bool recall();

  const std::vector<TokenId>& ids() const { return ids_; }
  const std::vector<Role>& roles() const { return roles_; }
  /// Indices at which a sentence starts, ascending; includes the end if the end completes a
  /// sentence.
  const std::vector<int>& sentence_starts() const { return sentence_starts_; }

  /// A thing or place that has had no needle.
  TokenId fresh_needle_word();
  /// A number from 10 to 99 that no needle has.
  int fresh_needle_number();
  static std::vector<TokenId> needle_sentence(const Vocabulary& vocabulary, TokenId word,
                                              int number);
  static std::vector<TokenId> question(const Vocabulary& vocabulary, TokenId word);

 private:
  /// A run of tokens written earlier that can be repeated: its introduction, then its tokens.
  struct Passage {
    std::vector<TokenId> title;
    std::vector<TokenId> body;
    int unit = 1;  // quotes start at a multiple of this
  };
  /// Something that can be asked: the question, and the answer that follows it.
  struct Fact {
    std::vector<TokenId> question;
    TokenId answer = 0;
  };

  void draw_passage(const Mix& mix);
  /// Writes a segment of random words that can be repeated. Its length is a quarter of `longest` to
  /// `longest`, at least 2, and at least 8 if `longest` is 32 or more.
  void draw_segment(int longest, int lexicon);
  void put(TokenId id, Role role = Role::text);
  void put(const std::vector<TokenId>& ids, Role role = Role::text);
  /// Words separated by spaces, with punctuation behind them: put_text("Then she said:").
  void put_text(std::string_view text);
  std::vector<TokenId> tokens(std::string_view text) const;
  void end_sentence() { sentence_starts_.push_back(static_cast<int>(ids_.size())); }

  void sentence(double echo);
  /// "Who? Ada.", the last person, thing or place; nothing if the last 24 tokens have none.
  void last_mentioned();
  TokenId any_word(int lexicon = 0);
  TokenId person();
  TokenId pick(std::span<const std::string_view> list);
  void quote(const Passage& passage);
  void ask(const Fact& fact);

  const Vocabulary& vocabulary_;
  const Language& language_;
  Random& random_;
  std::vector<TokenId> ids_;
  std::vector<Role> roles_;
  std::vector<int> sentence_starts_;
  std::vector<TokenId> cast_;  // the people of this sequence
  std::vector<Passage> passages_;
  std::vector<Fact> facts_;
  std::vector<Fact> needles_;
  std::vector<TokenId> needle_words_;
  std::vector<int> needle_numbers_;
};

}  // namespace kvloupe::train
