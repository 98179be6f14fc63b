#include "trainer/passages.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "trainer/words.h"

namespace kvloupe::train {
namespace {

std::vector<TokenId> tokens_of(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<TokenId> ids;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = std::min(text.find(' ', begin), text.size());
    std::string_view chunk = text.substr(begin, end - begin);
    std::size_t letters = chunk.size();
    while (letters > 0 && std::ispunct(static_cast<unsigned char>(chunk[letters - 1]))) --letters;
    if (letters > 0) ids.push_back(vocabulary.word(chunk.substr(0, letters)));
    for (const char mark : chunk.substr(letters)) ids.push_back(vocabulary.mark(mark));
    begin = end + 1;
  }
  return ids;
}

/// A kind of question about the last sentences.
struct Kind {
  const char* question;
  std::span<const std::string_view> (*words)();
};
constexpr Kind kKinds[] = {{"Who?", names}, {"What?", things}, {"Where?", places}};

/// The kind a word is of; null for other words. The lists of words follow each other in the
/// vocabulary, so that the first and last of each bound it.
const Kind* kind_of(const Vocabulary& vocabulary, TokenId id) {
  for (const Kind& kind : kKinds) {
    const auto words = kind.words();
    if (id >= vocabulary.word(words.front()) && id <= vocabulary.word(words.back())) return &kind;
  }
  return nullptr;
}

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

PassageWriter::PassageWriter(const Vocabulary& vocabulary, const Language& language, Random& random)
    : vocabulary_(vocabulary), language_(language), random_(random) {
  put(Vocabulary::kBos);
  end_sentence();
  while (cast_.size() < 4) {
    const TokenId name = pick(names());
    if (!contains(cast_, name)) cast_.push_back(name);
  }
}

void PassageWriter::put(TokenId id, Role role) {
  ids_.push_back(id);
  roles_.push_back(role);
}

void PassageWriter::put(const std::vector<TokenId>& ids, Role role) {
  for (const TokenId id : ids) put(id, role);
}

void PassageWriter::put_text(std::string_view text) { put(tokens(text)); }

std::vector<TokenId> PassageWriter::tokens(std::string_view text) const {
  return tokens_of(vocabulary_, text);
}

TokenId PassageWriter::pick(std::span<const std::string_view> list) {
  return vocabulary_.word(
      list[static_cast<std::size_t>(random_.below(static_cast<int>(list.size())))]);
}

TokenId PassageWriter::person() {
  return random_.chance(0.6) ? cast_[static_cast<std::size_t>(random_.below(4))] : pick(names());
}

TokenId PassageWriter::any_word(int lexicon) {
  const std::array lists = {names(), things(), places(), adjectives(), verbs()};
  int total = 100;  // the numbers
  for (const auto& list : lists) total += static_cast<int>(list.size());
  int drawn = random_.below(lexicon > 0 ? std::min(lexicon, total) : total);
  for (const auto& list : lists) {
    if (drawn < static_cast<int>(list.size()))
      return vocabulary_.word(list[static_cast<std::size_t>(drawn)]);
    drawn -= static_cast<int>(list.size());
  }
  return vocabulary_.number(drawn);
}

void PassageWriter::passage(const Mix& mix) {
  draw_passage(mix);
  if (mix.paragraph > 0.0 && random_.chance(mix.paragraph)) {
    put(Vocabulary::kNewline);
    end_sentence();
  }
}

void PassageWriter::draw_passage(const Mix& mix) {
  if (random_.chance(mix.recall) && recall()) return;
  double drawn = random_.uniform() * (mix.cipher + mix.ledger + mix.story + mix.tale + mix.dice +
                                      mix.fact + mix.needle);
  if ((drawn -= mix.cipher) < 0) return cipher();
  if ((drawn -= mix.ledger) < 0) return ledger();
  if ((drawn -= mix.story) < 0) return story();
  if ((drawn -= mix.tale) < 0) return tale(mix);
  if ((drawn -= mix.dice) < 0) return dice();
  if ((drawn -= mix.fact) < 0) return fact();
  // Past 40 needles hardly a free number is left: the text goes on without.
  if (needles_.size() >= 40) return mix.tale > mix.story ? tale(mix) : story();
  needle();
}

void PassageWriter::draw_segment(int longest, int lexicon) {
  Passage segment;
  const int size = random_.between(std::clamp(longest / 4, 2, 8), longest);
  for (int i = 0; i < size; ++i) segment.body.push_back(any_word(lexicon));
  put(segment.body);
  passages_.push_back(std::move(segment));
}

void PassageWriter::drill(const Mix& mix) {
  if (passages_.empty()) return draw_segment(mix.segment, mix.lexicon);
  put(passages_.front().body, Role::quoted);
}

void PassageWriter::repetition(const Mix& mix) {
  const bool repeat = !passages_.empty() && random_.chance(0.5);
  if (!repeat) return draw_segment(mix.segment * 6 / 5, mix.lexicon);
  const Passage& source =
      passages_[static_cast<std::size_t>(random_.below(static_cast<int>(passages_.size())))];
  const int size = static_cast<int>(source.body.size());
  const int first = random_.chance(0.5) ? 0 : random_.below(std::max(1, size - 4));
  const int count = random_.between(std::min(4, size - first), size - first);
  for (int i = first; i < first + count; ++i) {
    put(source.body[static_cast<std::size_t>(i)], i == first ? Role::text : Role::quoted);
  }
}

void PassageWriter::cipher() {
  Passage written;
  written.title = tokens("Cipher");
  written.title.push_back(vocabulary_.number(random_.below(100)));
  written.title.push_back(vocabulary_.mark(':'));
  const int size = random_.between(6, 32);
  for (int i = 0; i < size; ++i) written.body.push_back(any_word());
  put(written.title);
  put(written.body);
  put(vocabulary_.mark('.'));
  end_sentence();
  passages_.push_back(std::move(written));
}

void PassageWriter::ledger() {
  Passage written;
  const bool numbered = random_.chance(0.6);
  written.title = tokens(numbered ? "Ledger of" : "List of");
  written.title.push_back(person());
  written.title.push_back(vocabulary_.mark(':'));
  written.unit = numbered ? 3 : 2;
  const int entries = random_.between(4, 12);
  for (int i = 0; i < entries; ++i) {
    if (i > 0) written.body.push_back(vocabulary_.mark(','));
    written.body.push_back(numbered ? pick(things()) : any_word());
    if (numbered) written.body.push_back(vocabulary_.number(random_.below(100)));
  }
  put(written.title);
  put(written.body);
  put(vocabulary_.mark('.'));
  end_sentence();
  passages_.push_back(std::move(written));
}

void PassageWriter::dice() {
  static constexpr std::array<std::string_view, 10> kColours = {
      "red", "blue", "green", "yellow", "white", "black", "pink", "purple", "brown", "grey"};
  const bool digits = random_.chance(0.5);
  put_text(digits ? "Code" : "Page");
  put(vocabulary_.mark(':'));
  const int size = random_.between(8, 40);
  for (int i = 0; i < size; ++i) {
    const int drawn = random_.below(10);
    put(digits ? vocabulary_.number(drawn)
               : vocabulary_.word(kColours[static_cast<std::size_t>(drawn)]));
  }
  put(vocabulary_.mark('.'));
  end_sentence();
}

void PassageWriter::story() {
  const int sentences = random_.between(1, 3);
  for (int i = 0; i < sentences; ++i) {
    switch (random_.below(6)) {
      case 0:
        put(person());
        put(pick(verbs()));
        put_text("the");
        put(pick(adjectives()));
        put(pick(things()));
        put_text("in the");
        put(pick(places()));
        break;
      case 1:
        put_text("Then");
        put(person());
        put(pick(verbs()));
        put_text("a");
        put(pick(things()));
        put_text("and a");
        put(pick(adjectives()));
        put(pick(things()));
        break;
      case 2:
        put(person());
        put_text("and");
        put(person());
        put_text("walked to the");
        put(pick(adjectives()));
        put(pick(places()));
        break;
      case 3:
        put_text("Near the");
        put(pick(places()));
        put_text("stands a");
        put(pick(adjectives()));
        put(pick(things()));
        break;
      case 4:
        put(person());
        put_text("said to");
        put(person());
        put(vocabulary_.mark(':'));
        put(any_word());
        put(any_word());
        put(any_word());
        break;
      default:
        put_text("The");
        put(pick(things()));
        put_text("of");
        put(person());
        put_text("was");
        put(pick(adjectives()));
        put_text("and");
        put(pick(adjectives()));
        break;
    }
    put(vocabulary_.mark('.'));
    end_sentence();
  }
}

void PassageWriter::tale(const Mix& mix) {
  const int sentences = random_.between(1, 3);
  for (int i = 0; i < sentences; ++i) {
    sentence(mix.echo);
    if (random_.chance(mix.aside)) last_mentioned();
  }
}

void PassageWriter::sentence(double echo) {
  const TokenId stop = vocabulary_.mark('.');
  for (TokenId word = language_.next(stop, random_);; word = language_.next(word, random_)) {
    put(word);
    if (word == stop) break;
    const bool content = kind_of(vocabulary_, word) != nullptr;
    if (content && random_.chance(echo)) {
      put_text("again");
      put(word, Role::quoted);
    }
  }
  end_sentence();
}

void PassageWriter::last_mentioned() {
  const Kind& kind = kKinds[static_cast<std::size_t>(random_.below(std::size(kKinds)))];
  const std::size_t reach = std::min(ids_.size(), std::size_t{24});
  const auto found = std::find_if(ids_.rbegin(), ids_.rbegin() + static_cast<long>(reach),
                                  [&](TokenId id) { return kind_of(vocabulary_, id) == &kind; });
  if (found == ids_.rbegin() + static_cast<long>(reach)) return;
  const TokenId answer = *found;
  put_text(kind.question);
  put(answer, Role::quoted);
  put(vocabulary_.mark('.'));
  end_sentence();
}

void PassageWriter::fact() {
  Fact fact;
  const TokenId thing = pick(things());
  const TokenId owner = person();
  switch (random_.below(3)) {
    case 0: {  // The kettle of Ada is in the barn.   Where is the kettle of Ada? It is in the barn.
      std::vector<TokenId> subject = {thing, vocabulary_.word("of"), owner};
      fact.answer = pick(places());
      put_text("The");
      put(subject);
      put_text("is in the");
      put(fact.answer);
      fact.question = tokens("Where is the");
      fact.question.insert(fact.question.end(), subject.begin(), subject.end());
      const auto rest = tokens("? It is in the");
      fact.question.insert(fact.question.end(), rest.begin(), rest.end());
      break;
    }
    case 1: {  // Ada told us the kettle is worth 12.   Who ... the same sentence again, asked for.
      fact.answer = vocabulary_.number(random_.below(100));
      fact.question = {owner, vocabulary_.word("has"), vocabulary_.word("number")};
      put(fact.question);
      put(fact.answer);
      break;
    }
    default: {  // The secret word of Ada is velvet.
      fact.answer = any_word();
      fact.question = tokens("The secret word of");
      fact.question.push_back(owner);
      fact.question.push_back(vocabulary_.word("is"));
      put(fact.question);
      put(fact.answer);
      break;
    }
  }
  put(vocabulary_.mark('.'));
  end_sentence();
  // An older statement about the same subject no longer holds.
  std::erase_if(facts_, [&](const Fact& old) { return old.question == fact.question; });
  facts_.push_back(std::move(fact));
}

TokenId PassageWriter::fresh_needle_word() {
  TokenId word = 0;
  do {
    word = random_.chance(0.75) ? pick(things()) : pick(places());
  } while (contains(needle_words_, word));
  needle_words_.push_back(word);
  return word;
}

int PassageWriter::fresh_needle_number() {
  int number = 0;
  do {
    number = random_.between(10, 99);
  } while (contains(needle_numbers_, number));
  needle_numbers_.push_back(number);
  return number;
}

std::vector<TokenId> PassageWriter::needle_sentence(const Vocabulary& vocabulary, TokenId word,
                                                    int number) {
  std::vector<TokenId> ids = tokens_of(vocabulary, "One of the special magic numbers for");
  ids.push_back(word);
  ids.push_back(vocabulary.word("is"));
  ids.push_back(vocabulary.mark(':'));
  ids.push_back(vocabulary.number(number));
  ids.push_back(vocabulary.mark('.'));
  return ids;
}

std::vector<TokenId> PassageWriter::question(const Vocabulary& vocabulary, TokenId word) {
  std::vector<TokenId> ids = tokens_of(vocabulary, "What is the special magic number for");
  ids.push_back(word);
  const auto rest = tokens_of(vocabulary, "? The special magic number for");
  ids.insert(ids.end(), rest.begin(), rest.end());
  ids.push_back(word);
  ids.push_back(vocabulary.word("is"));
  ids.push_back(vocabulary.mark(':'));
  return ids;
}

int PassageWriter::needle() {
  const TokenId word = fresh_needle_word();
  const int number = fresh_needle_number();
  put(needle_sentence(vocabulary_, word, number));
  end_sentence();
  needles_.push_back({question(vocabulary_, word), vocabulary_.number(number)});
  return static_cast<int>(ids_.size()) - 2;
}

void PassageWriter::quiz(int room) {
  constexpr int kNeedleWithQuestion = 31;  // tokens
  // Past 40 needles hardly a free number is left: a long sequence goes on with a story.
  if (needles_.size() >= 40) return story();
  const int most = std::clamp(room / kNeedleWithQuestion, 2, 12);
  const std::size_t first = needles_.size();
  for (int count = random_.between(2, most); count > 0; --count) needle();
  std::vector<std::size_t> order;
  for (std::size_t i = first; i < needles_.size(); ++i) order.push_back(i);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random_.below(static_cast<int>(i)))]);
  }
  for (const std::size_t i : order) ask(needles_[i]);
}

void PassageWriter::quote(const Passage& passage) {
  const int size = static_cast<int>(passage.body.size());
  const bool whole = random_.chance(0.4);
  const int first = whole ? 0 : random_.below(std::max(1, size / 2)) / passage.unit * passage.unit;
  const int count = whole ? size : random_.between(std::min(3, size - first), size - first);
  put(passage.title);
  for (int i = first; i < first + count; ++i) {
    put(passage.body[static_cast<std::size_t>(i)], i == first ? Role::text : Role::quoted);
  }
  put(vocabulary_.mark('.'));
  end_sentence();
}

void PassageWriter::ask(const Fact& fact) {
  put(fact.question);
  put(fact.answer, Role::answer);
  put(vocabulary_.mark('.'));
  end_sentence();
}

bool PassageWriter::recall() {
  const auto draw = [&](const auto& list) -> const auto& {
    return list[static_cast<std::size_t>(random_.below(static_cast<int>(list.size())))];
  };
  const bool can_quote = !passages_.empty();
  const bool can_ask = !facts_.empty() || !needles_.empty();
  if (!can_quote && !can_ask) return false;
  if (can_quote && (!can_ask || random_.chance(0.4))) {
    quote(draw(passages_));
  } else if (!needles_.empty() && (facts_.empty() || random_.chance(0.7))) {
    ask(draw(needles_));
  } else {
    ask(draw(facts_));
  }
  return true;
}

}  // namespace kvloupe::train
