#include "app/export/value_texts.h"

#include "analysis/error.h"

namespace kvloupe::figure::html {

namespace {

constexpr std::size_t kOne = 40, kTwo = 38, kThree = 12;  // leading characters
constexpr std::size_t kBase = ValueTexts::kAlphabet.size();
static_assert(kOne + kTwo + kThree == kBase);
constexpr char kHole = '\1';  // where a number stands among words
constexpr std::string_view kThinSpace = "\u2009";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The end of the number that starts at a digit: digits, a point, thin spaces in thousands.
std::size_t number_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (is_digit(text[at])) {
      ++at;
    } else if (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1])) {
      ++at;
    } else if (text.substr(at).starts_with(kThinSpace) && at + kThinSpace.size() < text.size() &&
               is_digit(text[at + kThinSpace.size()])) {
      at += kThinSpace.size();
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

void ValueTexts::put(std::size_t number) {
  if (number < kOne) {
    stream_ += kAlphabet[number];
    return;
  }
  number -= kOne;
  if (number < kTwo * kBase) {
    stream_ += kAlphabet[kOne + number / kBase];
    stream_ += kAlphabet[number % kBase];
    return;
  }
  number -= kTwo * kBase;
  if (number >= kThree * kBase * kBase)
    throw WorkError("a figure has too many values for a web page");
  stream_ += kAlphabet[kOne + kTwo + number / (kBase * kBase)];
  stream_ += kAlphabet[number / kBase % kBase];
  stream_ += kAlphabet[number % kBase];
}

void ValueTexts::end_run() {
  // A run too long for one number is several.
  constexpr std::size_t kLongest = 50'000;
  while (run_ > 0) {
    const std::size_t part = run_ < kLongest ? run_ : kLongest;
    put(0);
    put(part);
    run_ -= part;
  }
}

std::size_t ValueTexts::place_of(std::string_view text,
                                 std::map<std::string, std::size_t, std::less<>>& places,
                                 std::vector<std::string>& list) {
  if (const auto found = places.find(text); found != places.end()) return found->second;
  list.emplace_back(text);
  bytes_ += text.size() + 3;
  return places.emplace(text, list.size() - 1).first->second;
}

void ValueTexts::add(std::string_view text) {
  if (has_last_ && text == last_) {
    ++run_;
    return;
  }
  end_run();
  last_ = text;
  has_last_ = true;
  std::string words;
  std::vector<std::string_view> numbers;
  for (std::size_t at = 0; at < text.size();) {
    if (is_digit(text[at])) {
      const std::size_t end = number_end(text, at);
      numbers.push_back(text.substr(at, end - at));
      words += kHole;
      at = end;
    } else {
      if (text[at] != kHole) words += text[at];
      ++at;
    }
  }
  put(1 + place_of(words, word_places_, words_));
  for (const std::string_view number : numbers) put(place_of(number, number_places_, numbers_));
}

std::string ValueTexts::take() {
  end_run();
  has_last_ = false;
  std::string out;
  out.swap(stream_);
  bytes_ += out.size();
  return out;
}

}  // namespace kvloupe::figure::html
