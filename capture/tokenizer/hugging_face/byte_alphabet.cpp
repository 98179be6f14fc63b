#include "capture/tokenizer/hugging_face/byte_alphabet.h"

#include <array>

#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t kFirstOther = 0x100;
constexpr std::size_t kCharacters = 0x144;

struct Alphabet {
  std::array<std::string, 256> character;
  std::array<int, kCharacters> byte{};  // −1: none

  Alphabet() {
    byte.fill(-1);
    char32_t other = kFirstOther;
    for (unsigned b = 0; b < 256; ++b) {
      const char32_t c = stands_for_itself(b) ? b : other++;
      append_character(character[b], c);
      byte[c] = static_cast<int>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet known;
  return known;
}

}  // namespace

std::string_view byte_character(unsigned char byte) { return alphabet().character[byte]; }

std::optional<std::string> bytes_of_piece(std::string_view piece) {
  std::string bytes;
  while (!piece.empty()) {
    const std::size_t length = character_length(piece);
    if (length == 0) return std::nullopt;
    const char32_t c = first_character(piece);
    if (c >= kCharacters || alphabet().byte[c] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().byte[c]);
    piece.remove_prefix(length);
  }
  return bytes;
}

}  // namespace kvloupe
