#include "trainer/tokenizer_model.h"

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

void put_float(std::string& out, int field, float value) {
  put_varint(out, (static_cast<std::uint64_t>(field) << 3) | 5);
  const auto word = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(word >> shift);
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
  put_bytes(normalizer, 1, "identity");
  put_integer(normalizer, 3, 1);  // add_dummy_prefix
  put_integer(normalizer, 4, 1);  // remove_extra_whitespaces
  put_integer(normalizer, 5, 1);  // escape_whitespaces
  put_bytes(model, 3, normalizer);
  return model;
}

}  // namespace kvloupe::train
