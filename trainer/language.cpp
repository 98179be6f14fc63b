#include "trainer/language.h"

#include <span>
#include <string>
#include <string_view>

#include "analysis/error.h"
#include "trainer/words.h"

namespace kvloupe::train {
namespace {

constexpr std::uint64_t kLanguage = 1900;  // the seed of who follows whom

using Followers = std::vector<Language::Follower>;
using Words = std::vector<std::string_view>;

/// Collects the followers of one token.
class Builder {
 public:
  Builder(const Vocabulary& vocabulary, Followers& followers)
      : vocabulary_(vocabulary), followers_(followers) {}

  Builder& add(TokenId id, double weight) {
    followers_.push_back({id, weight});
    return *this;
  }
  Builder& word(std::string_view word, double weight) {
    return add(vocabulary_.word(word), weight);
  }
  /// Every word alike, `weight` together.
  Builder& all(std::span<const std::string_view> words, double weight) {
    for (const std::string_view each : words) {
      word(each, weight / static_cast<double>(words.size()));
    }
    return *this;
  }
  /// `count` words drawn once and for all, with falling shares, `weight` together.
  Builder& some(std::span<const std::string_view> words, int count, double weight, Random& random) {
    double total = 0.0;
    for (int i = 0; i < count; ++i) total += 1.0 / (i + 2);
    for (int i = 0; i < count; ++i) {
      const auto drawn = static_cast<std::size_t>(random.below(static_cast<int>(words.size())));
      word(words[drawn], weight / (i + 2) / total);
    }
    return *this;
  }
  void done() {
    double total = 0.0;
    for (const auto& follower : followers_) total += follower.weight;
    for (auto& follower : followers_) follower.weight /= total;
  }

 private:
  const Vocabulary& vocabulary_;
  Followers& followers_;
};

/// Names of people who act (every fourth name), and of people whom things happen to. The name alone
/// decides.
Words people(bool acting) {
  Words found;
  for (std::size_t i = 0; i < names().size(); ++i) {
    if ((i % 4 == 0) == acting) found.push_back(names()[i]);
  }
  return found;
}

/// The words that follow "an" if `vowel`, else "a".
Words starting(std::span<const std::string_view> words, bool vowel) {
  Words found;
  for (const std::string_view word : words) {
    const bool starts = std::string_view("aeiou").find(word.front()) != std::string_view::npos;
    if (starts == vowel) found.push_back(word);
  }
  return found;
}

}  // namespace

Language::Language(const Vocabulary& vocabulary)
    : followers_(static_cast<std::size_t>(vocabulary.size())) {
  Random random(kLanguage);
  const TokenId stop = vocabulary.mark('.');
  const auto after = [&](TokenId id) {
    return Builder(vocabulary, followers_[static_cast<std::size_t>(id)]);
  };
  const auto after_word = [&](std::string_view word) { return after(vocabulary.word(word)); };
  const Words heroes = people(true);
  const Words others = people(false);

  after(stop)
      .some(heroes, 24, 0.55, random)
      .word("The", 0.25)
      .word("A", 0.1)
      .word("Then", 0.1)
      .done();
  after_word("Then").some(heroes, 24, 0.8, random).word("the", 0.2).done();
  for (const char* article : {"The", "the"}) {
    after_word(article).all(adjectives(), 0.4).all(things(), 0.4).all(places(), 0.2).done();
  }
  for (const char* article : {"A", "a", "an"}) {
    const bool vowel = std::string_view(article) == "an";
    after_word(article)
        .all(starting(adjectives(), vowel), 0.5)
        .all(starting(things(), vowel), 0.5)
        .done();
  }
  after_word("and").word("the", 0.35).word("a", 0.2).word("an", 0.1).all(others, 0.35).done();
  after_word("in").word("the", 0.85).word("a", 0.15).done();
  after_word("near").word("the", 0.7).all(others, 0.3).done();
  after_word("of").all(others, 0.8).word("the", 0.2).done();
  for (const std::string_view word : adjectives()) {
    after_word(word).some(things(), 8, 0.75, random).some(places(), 4, 0.25, random).done();
  }
  // Each word has its own preferences among its continuations.
  const auto liking = [&] { return 0.25 + random.uniform(); };
  for (const std::string_view word : things()) {
    after_word(word)
        .add(stop, 2.0 * liking())
        .word("and", 0.7 * liking())
        .word("in", liking())
        .word("near", 0.6 * liking())
        .word("of", 0.7 * liking())
        .done();
  }
  for (const std::string_view word : places()) {
    after_word(word)
        .add(stop, 3.0 * liking())
        .word("and", 0.6 * liking())
        .word("near", 0.8 * liking())
        .word("of", 0.6 * liking())
        .done();
  }
  for (const std::string_view word : heroes) {
    after_word(word).some(verbs(), 8, 0.9, random).word("and", 0.1).done();
  }
  for (const std::string_view word : others) {
    after_word(word)
        .add(stop, 2.0 * liking())
        .word("and", 0.6 * liking())
        .word("in", 0.7 * liking())
        .word("near", 0.5 * liking())
        .done();
  }
  for (const std::string_view word : verbs()) {
    after_word(word)
        .word("the", 2.0 * liking())
        .word("a", liking())
        .word("an", 0.4 * liking())
        .some(others, 4, 0.3 * liking(), random)
        .done();
  }
}

const std::vector<Language::Follower>& Language::followers(TokenId current) const {
  return followers_.at(static_cast<std::size_t>(current));
}

TokenId Language::next(TokenId current, Random& random) const {
  const auto& list = followers(current);
  if (list.empty()) {
    throw WorkError("token " + std::to_string(current) + " has no followers in a story");
  }
  double drawn = random.uniform();
  for (const Follower& follower : list) {
    if ((drawn -= follower.weight) < 0.0) return follower.id;
  }
  return list.back().id;
}

}  // namespace kvloupe::train
