#include "capture/tokenizer/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

constexpr std::uintmax_t kLargestFile = 256U << 20U;

/// One field of a protocol buffer message: its number, and its number or bytes.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // varint, or the bits of a fixed-size field
  std::string_view bytes;   // of a length-delimited field
};

/// Walks the fields of one message (https://protobuf.dev/programming-guides/encoding). Sets
/// `broken` and ends if the bytes are not a message.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  std::optional<Field> next() {
    if (rest_.empty() || broken_) return std::nullopt;
    const std::uint64_t key = varint();
    Field field;
    field.number = key >> 3U;
    switch (key & 7U) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed(8);
        break;
      case 2: {
        const std::uint64_t size = varint();
        field.bytes = take(size);
        break;
      }
      case 5:
        field.value = fixed(4);
        break;
      default:
        broken_ = true;
    }
    if (field.number == 0) broken_ = true;
    if (broken_) return std::nullopt;
    return field;
  }
  bool broken() const { return broken_; }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) {
      broken_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (broken_) return 0;
      const auto bits = static_cast<unsigned char>(byte.front());
      value |= std::uint64_t{bits & 0x7FU} << shift;
      if ((bits & 0x80U) == 0) return value;
    }
    broken_ = true;
    return 0;
  }
  std::uint64_t fixed(std::size_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return value;
  }

  std::string_view rest_;
  bool broken_ = false;
};

/// Reads the messages of sentencepiece_model.proto; the numbers are its field numbers.
class ModelParser {
 public:
  explicit ModelParser(std::string where) : where_(std::move(where)) {}

  SentencePieceModel parse(std::string_view bytes) {
    each(bytes, [&](const Field& field) {
      if (field.number == 1) parse_piece(field.bytes);
      if (field.number == 2) parse_trainer(field.bytes);
      if (field.number == 3) parse_normaliser(field.bytes);
    });
    check();
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const { throw FileError(where_, problem); }

  template <typename Visit>
  void each(std::string_view bytes, Visit visit) const {
    Fields fields(bytes);
    while (const std::optional<Field> field = fields.next()) visit(*field);
    if (fields.broken()) fail("is not a SentencePiece model; is the download complete?");
  }

  void parse_piece(std::string_view bytes) {
    SentencePieceModel::Piece piece;
    std::uint64_t type = 1;
    each(bytes, [&](const Field& field) {
      if (field.number == 1) piece.text = field.bytes;
      if (field.number == 2)
        piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
      if (field.number == 3) type = field.value;
    });
    const std::string id = std::to_string(model_.pieces.size());
    if (piece.text.empty()) fail("piece " + id + " is empty");
    if (type < 1 || type > 6) fail("piece " + id + " has an unknown type");
    if (!std::isfinite(piece.score)) fail("the score of piece " + id + " is not a number");
    piece.type = static_cast<SentencePieceModel::PieceType>(type);
    model_.pieces.push_back(std::move(piece));
  }

  void parse_trainer(std::string_view bytes) {
    each(bytes, [&](const Field& field) {
      if (field.number == 3) {
        if (field.value != 1 && field.value != 2) {
          fail("word and character models are not supported; supported: BPE and unigram models");
        }
        model_.kind = static_cast<SentencePieceModel::Kind>(field.value);
      }
      if (field.number == 24) model_.whitespace_as_suffix = field.value != 0;
      if (field.number == 35) model_.byte_fallback = field.value != 0;
      if (field.number == 46) model_.bos_piece = field.bytes;
      if (field.number == 47) model_.eos_piece = field.bytes;
    });
  }

  void parse_normaliser(std::string_view bytes) {
    std::string name = "?";
    bool maps_characters = false;
    each(bytes, [&](const Field& field) {
      if (field.number == 1) name = field.bytes;
      if (field.number == 2) maps_characters = !field.bytes.empty();
      if (field.number == 3) model_.add_dummy_prefix = field.value != 0;
      if (field.number == 4) model_.remove_extra_whitespaces = field.value != 0;
      if (field.number == 5) model_.escape_whitespaces = field.value != 0;
    });
    if (maps_characters) {
      fail("the normaliser \"" + name +
           "\" is not supported; supported: \"identity\", which Llama models use");
    }
  }

  void check() const {
    if (model_.pieces.empty()) fail("is not a SentencePiece model (it has no pieces)");
    std::unordered_set<std::string_view> seen;
    int unknown = 0;
    std::size_t bytes = 0;
    for (const SentencePieceModel::Piece& piece : model_.pieces) {
      using Type = SentencePieceModel::PieceType;
      if (!seen.insert(piece.text).second) fail("two pieces are equal");
      if (piece.type == Type::unknown) ++unknown;
      if (piece.type == Type::byte) {
        ++bytes;
        if (byte_of_piece(piece.text) < 0) fail("a byte piece does not have the form <0xNN>");
      }
    }
    if (unknown != 1) fail("is not a SentencePiece model (it needs exactly one unknown piece)");
    if (model_.byte_fallback && bytes != 256)
      fail("has a byte fallback, but not all of the 256 byte pieces");
  }

  std::string where_;
  SentencePieceModel model_;
};

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  return ModelParser(path.string()).parse(read_file(path, kLargestFile));
}

}  // namespace kvloupe
