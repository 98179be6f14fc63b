#pragma once
// Finds a text in a sequence of tokens, across their borders.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/trace/segments.h"

namespace kvloupe::window {

/// From a byte of one token's text up to, not including, a byte of another's or of the same.
struct TextHit {
  int first = 0;          // token
  std::size_t begin = 0;  // byte of its text
  int last = 0;           // token, included
  std::size_t end = 0;    // byte of its text
  TokenRange tokens() const { return {first, last + 1}; }
  bool operator==(const TextHit&) const = default;
};

/// Every place where `query` occurs in the tokens' texts, in order, without overlaps. Upper and
/// lower case are the same; a space also matches a line break or a tab. `texts`: as shown
/// (plot/printable.h), UTF-8. An empty query finds nothing.
std::vector<TextHit> find_text(std::span<const std::string> texts, std::string_view query);

/// The search in the open text: the query, the hits, and the hit shown.
class TextSearch {
 public:
  /// Opens the field; an open one takes the keyboard again. What stands in the field is selected:
  /// the next text replaces it.
  void open();
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  /// The field takes the keyboard when it is drawn next, and again where it has lost it.
  void take_keyboard();
  /// True once after that.
  bool takes_keyboard();
  void keyboard_is_here(bool here) { waits_ = waits_ && !here; }
  /// True once after open(), when the field has the keyboard.
  bool selects_all(bool here) { return here && std::exchange(selects_, false); }
  /// Whether typed characters already belong to the field, which gets the keyboard in a frame or
  /// two.
  bool waits_for_keyboard() const;

  /// Searches `texts` if they or the query are new; `key` identifies the text. The shown hit stays
  /// if it is still a hit; else the next one is shown.
  void follow(const std::string& key, std::span<const std::string> texts);
  /// Looks at the hit so many further on, round the end.
  void go(int by);

  std::string query;
  const std::vector<TextHit>& hits() const { return hits_; }
  /// The hit looked at, as a place in hits(); −1: none.
  int current() const { return hits_.empty() ? -1 : current_; }
  const TextHit* hit() const;
  /// Counts how often a hit was gone to, so that the same one is scrolled into sight again.
  int turn() const { return turn_; }
  /// "3 of 17"; empty without a query.
  std::string place_text() const;

 private:
  bool open_ = false;
  bool focus_ = false;
  bool waits_ = false;
  bool selects_ = false;
  int asked_in_ = 0;      // the frame
  std::string key_;       // of hits_
  std::string searched_;  // the query of hits_
  std::vector<TextHit> hits_;
  int current_ = 0;
  int turn_ = 0;
};

}  // namespace kvloupe::window
