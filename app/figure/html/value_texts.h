#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::figure::html {

/// What is said at the places of a picture, small: of each text the words around its numbers are
/// stored once ("retained, score \1"), each number once, and a place is two or three characters.
///
/// A stream is a row of numbers, each one to three characters of `kAlphabet`: below 40, itself;
/// 40 to 77 lead two, 78 to 89 lead three. For each place: 0 and n: n more like the last one;
/// else 1 + the words' place in words(), then that of each number in numbers(). No character of the
/// alphabet needs escaping in JSON, HTML or XML.
class ValueTexts {
 public:
  static constexpr std::string_view kAlphabet =
      " !#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";

  /// The next place of the stream.
  void add(std::string_view text);
  /// The stream since the last call.
  std::string take();

  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& numbers() const { return numbers_; }
  /// What all that was stored takes, about.
  std::size_t bytes() const { return bytes_; }

 private:
  void put(std::size_t number);
  void end_run();
  std::size_t place_of(std::string_view text,
                       std::map<std::string, std::size_t, std::less<>>& places,
                       std::vector<std::string>& list);

  std::string stream_;
  std::string last_;
  bool has_last_ = false;
  std::size_t run_ = 0;
  std::map<std::string, std::size_t, std::less<>> word_places_, number_places_;
  std::vector<std::string> words_, numbers_;
  std::size_t bytes_ = 0;
};

}  // namespace kvloupe::figure::html
