#include "capture/train/tokenizer_model.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace kvloupe::train {
namespace {

// Protocol buffers, wire format: a field is (number << 3 | wire type), then a varint (type 0), a
// length and bytes (type 2) or four bytes, little endian (type 5).
void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_integer(std::string& out, int field, std::int64_t value) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, (static_cast<std::uint64_t>(field) << 3) | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_word(std::string& out, std::uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(word >> shift);
}

void put_float(std::string& out, int field, float value) {
  put_varint(out, (static_cast<std::uint64_t>(field) << 3) | 5);
  put_word(out, std::bit_cast<std::uint32_t>(value));
}

/// The normaliser's table "newline, carriage return, tab -> space": the length of a double-array
/// trie, the trie as 32-bit units, then the replacements, each ended by a zero byte.
/// A unit holds its label in bits 0-7, "has a leaf" in bit 8 and the offset to its children, which
/// are at (position XOR offset XOR label), from bit 10 on; a leaf has bit 31 and the position of
/// the replacement.
std::string whitespace_table() {
  constexpr std::uint32_t kChildren = 0x100;  // where the root's children lie
  constexpr std::uint32_t kHasLeaf = 1U << 8;
  constexpr std::uint32_t kLeaf = 1U << 31;
  std::array<std::uint32_t, 0x300> units{};
  units[0] = kChildren << 10;
  for (const std::uint32_t character : {0x09U, 0x0AU, 0x0DU}) {
    const std::uint32_t position = kChildren ^ character;
    const std::uint32_t leaf = 0x200U + character;
    units[position] = character | kHasLeaf | ((position ^ leaf) << 10);
    units[leaf] = kLeaf | 0U;  // the replacement at byte 0
  }
  std::string out;
  put_word(out, static_cast<std::uint32_t>(units.size() * sizeof units[0]));
  for (const std::uint32_t unit : units) put_word(out, unit);
  out += std::string_view(" \0", 2);
  return out;
}

}  // namespace

std::string tokenizer_model(const Vocabulary& vocabulary) {
  std::string model;
  for (const Piece& piece : vocabulary.pieces()) {
    std::string entry;
    put_bytes(entry, 1, piece.text);
    put_float(entry, 2, piece.score);
    put_integer(entry, 3, static_cast<int>(piece.type));
    put_bytes(model, 1, entry);
  }

  std::string trainer;
  put_integer(trainer, 3, 1);  // model_type: unigram
  put_integer(trainer, 4, vocabulary.size());
  put_integer(trainer, 35, 1);  // byte_fallback
  put_integer(trainer, 40, Vocabulary::kUnknown);
  put_integer(trainer, 41, Vocabulary::kBos);
  put_integer(trainer, 42, Vocabulary::kEos);
  put_integer(trainer, 43, -1);  // no padding piece
  put_bytes(model, 2, trainer);

  std::string normalizer;
  put_bytes(normalizer, 1, "whitespace");
  put_bytes(normalizer, 2, whitespace_table());
  put_integer(normalizer, 3, 1);  // add_dummy_prefix
  put_integer(normalizer, 4, 1);  // remove_extra_whitespaces
  put_integer(normalizer, 5, 1);  // escape_whitespaces
  put_bytes(model, 3, normalizer);
  return model;
}

}  // namespace kvloupe::train
