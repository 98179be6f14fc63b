#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::figure::html {

/// The texts at the places of a picture, in compact form: the words around the numbers of a text
/// are stored once ("retained, score \1"), each number once, and a place takes two or three
/// characters.
///
/// A stream is a sequence of numbers, each with one to three characters of `kAlphabet`: a character
/// below 40 is the number itself; 40 to 77 begin two characters, 78 to 89 begin three. For each
/// place: 0 and n: n more places like the last one; else 1 + the index of the words in words(),
/// then the index of each number in numbers(). No character of the alphabet needs escaping in JSON,
/// HTML or XML.
class ValueTexts {
 public:
  static constexpr std::string_view kAlphabet =
      " !#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";

  /// Adds the next place to the stream.
  void add(std::string_view text);
  /// The stream since the last call.
  std::string take();

  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& numbers() const { return numbers_; }
  /// Approximate size of everything stored.
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
