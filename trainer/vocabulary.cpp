#include "trainer/vocabulary.h"

#include <cstdio>

#include "analysis/error.h"
#include "trainer/words.h"

namespace kvloupe::train {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kMarks = ".,:;?!'\"-()[]@#&%+=/*";

// A unigram tokenizer takes the cut with the largest sum of scores. A word can be built only from
// itself or from letters, so one word (-5) always beats the space mark and its letters (-10 each).
constexpr float kWordScore = -5.0F;
constexpr float kLetterScore = -10.0F;

}  // namespace

Vocabulary::Vocabulary() {
  add("<unk>", PieceType::unknown, 0.0F);
  add("<s>", PieceType::control, 0.0F);
  add("</s>", PieceType::control, 0.0F);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    add(text, PieceType::byte, 0.0F);
  }
  add(std::string(kSpaceMark), PieceType::normal, kLetterScore);
  for (const char mark : kMarks) add(std::string(1, mark), PieceType::normal, kWordScore);
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    add(std::string(1, letter), PieceType::normal, kLetterScore);
  }
  for (char letter = 'A'; letter <= 'Z'; ++letter) {
    add(std::string(1, letter), PieceType::normal, kLetterScore);
  }
  for (char digit = '0'; digit <= '9'; ++digit) {
    add(std::string(1, digit), PieceType::normal, kLetterScore);
  }
  for (int value = 0; value < 100; ++value) {
    add(std::string(kSpaceMark) + std::to_string(value), PieceType::normal, kWordScore);
  }
  for (const auto list : {names(), things(), places(), adjectives(), verbs(), function_words()}) {
    for (const std::string_view word : list) {
      add(std::string(kSpaceMark).append(word), PieceType::normal, kWordScore);
    }
  }
}

void Vocabulary::add(std::string text, PieceType type, float score) {
  const auto [position, inserted] = ids_.emplace(text, size());
  if (!inserted) throw WorkError("vocabulary: the piece '" + text + "' is listed twice");
  pieces_.push_back({std::move(text), type, score});
}

TokenId Vocabulary::find(const std::string& text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) throw WorkError("vocabulary: no piece '" + text + "'");
  return found->second;
}

TokenId Vocabulary::word(std::string_view word) const {
  return find(std::string(kSpaceMark).append(word));
}

TokenId Vocabulary::number(int value) const { return word(std::to_string(value)); }

TokenId Vocabulary::mark(char character) const { return find(std::string(1, character)); }

std::string Vocabulary::text(std::span<const TokenId> ids) const {
  std::string out;
  for (const TokenId id : ids) {
    const Piece& piece = pieces_.at(static_cast<std::size_t>(id));
    if (id == kNewline) out += '\n';
    if (piece.type != PieceType::normal) continue;
    if (piece.text.starts_with(kSpaceMark)) {
      if (!out.empty()) out += ' ';
      out += piece.text.substr(kSpaceMark.size());
    } else {
      out += piece.text;
    }
  }
  return out;
}

}  // namespace kvloupe::train
