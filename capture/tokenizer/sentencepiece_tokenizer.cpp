#include "capture/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/error.h"

namespace kvloupe {

namespace {

constexpr std::uintmax_t kLargestFile = 256U << 20U;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // ▁, SentencePiece's space

std::string read_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw FileError(path.string(), "is not a file");
  }
  if (std::filesystem::file_size(path, ignored) > kLargestFile) {
    throw FileError(path.string(), "is too large to be a tokenizer");
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw FileError(path.string(), "cannot be read");
  return bytes;
}

/// "add_bos_token" of tokenizer_config.json; true where the file or the field is absent, as
/// Hugging Face's Llama tokenizer does.
bool adds_bos(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return true;
  const nlohmann::json root = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!root.is_object())
    throw FileError(path.string(), "is not a JSON object; is the download complete?");
  const auto found = root.find("add_bos_token");
  if (found == root.end() || found->is_null()) return true;
  if (!found->is_boolean()) throw FileError(path.string(), "add_bos_token must be true or false");
  return found->get<bool>();
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "tokenizer.model";
    if (!processor_.LoadFromSerializedProto(read_file(path)).ok() ||
        processor_.GetPieceSize() <= 0) {
      throw FileError(path.string(), "is not a SentencePiece model; is the download complete?");
    }
    if (processor_.bos_id() >= 0 && adds_bos(folder)) bos_ = processor_.bos_id();
  }

  std::int32_t size() const override { return processor_.GetPieceSize(); }
  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override {
    if (processor_.eos_id() < 0) return std::nullopt;
    return processor_.eos_id();
  }
  bool is_special(std::int32_t id) const override {
    return in_range(id) && processor_.IsControl(id);
  }

  std::vector<EncodedToken> encode(std::string_view text) const override {
    const sentencepiece::ImmutableSentencePieceText encoded =
        processor_.EncodeAsImmutableProto({text.data(), text.size()});
    std::vector<EncodedToken> tokens;
    tokens.reserve(encoded.pieces_size());
    for (std::size_t i = 0; i < encoded.pieces_size(); ++i) {
      const auto piece = encoded.pieces(static_cast<int>(i));
      tokens.push_back({static_cast<std::int32_t>(piece.id()), piece.begin(), piece.end()});
    }
    if (tokens.empty() && !text.empty() &&
        std::any_of(text.begin(), text.end(), [](unsigned char c) { return c > ' '; })) {
      throw WorkError("the tokenizer made no tokens of the text");
    }
    return tokens;
  }

  std::string piece_text(std::int32_t id) const override {
    if (!in_range(id)) return "[" + std::to_string(id) + "]";
    const std::string& piece = processor_.IdToPiece(id);
    if (processor_.IsByte(id)) {  // written <0xNN>
      return byte_text(static_cast<unsigned char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
    }
    std::string text;
    for (std::size_t i = 0; i < piece.size();) {
      const auto byte = static_cast<unsigned char>(piece[i]);
      if (piece.compare(i, kSpaceMark.size(), kSpaceMark) == 0) {
        text += ' ';
        i += kSpaceMark.size();
      } else if (byte < 0x20 || byte == 0x7F) {
        text += byte_text(byte);
        ++i;
      } else {
        text += piece[i++];
      }
    }
    return text;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::vector<int> known;
    for (const std::int32_t id : ids) {
      if (in_range(id) && !processor_.IsControl(id)) known.push_back(id);
    }
    return processor_.DecodeIds(known);
  }

 private:
  bool in_range(std::int32_t id) const { return id >= 0 && id < processor_.GetPieceSize(); }

  sentencepiece::SentencePieceProcessor processor_;
  std::optional<std::int32_t> bos_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder) {
  return std::make_unique<SentencePieceTokenizer>(folder);
}

}  // namespace kvloupe
