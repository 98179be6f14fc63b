#include <array>
#include <cstdio>
#include <string>

#include "analysis/error.h"
#include "capture/tokenizer/sentencepiece_tokenizer.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

namespace {

/// One kind of tokenizer: the file that shows it is there, and how the folder is opened.
struct TokenizerKind {
  const char* file;
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& folder);
};

/// Every kind, one line each; the first whose file is there is used.
constexpr std::array kKinds{
    TokenizerKind{"tokenizer.model", open_sentencepiece_tokenizer},
};

const TokenizerKind* find_kind(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const TokenizerKind& kind : kKinds) {
    if (std::filesystem::exists(folder / kind.file, ignored)) return &kind;
  }
  return nullptr;
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) { return find_kind(folder) != nullptr; }

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder) {
  if (const TokenizerKind* kind = find_kind(folder)) return kind->open(folder);
  std::string known;
  for (const TokenizerKind& kind : kKinds)
    known += (known.empty() ? "" : " or ") + std::string(kind.file);
  throw FileError(folder.string(), "holds no " + known + "; give the tokens themselves with --ids");
}

std::string byte_text(unsigned char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\r') return "\\r";
  if (byte >= 0x20 && byte < 0x7F) return std::string(1, static_cast<char>(byte));
  std::array<char, 5> text{};
  std::snprintf(text.data(), text.size(), "\\x%02X", static_cast<unsigned>(byte));
  return text.data();
}

}  // namespace kvloupe
