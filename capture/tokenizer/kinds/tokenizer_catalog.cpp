#include "capture/tokenizer/kinds/tokenizer_catalog.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "analysis/error.h"
#include "analysis/trace/model_files.h"
#include "capture/tokenizer/hugging_face/hugging_face_tokenizer.h"
#include "capture/tokenizer/kinds/gguf_tokenizer.h"
#include "capture/tokenizer/sentencepiece_tokenizer.h"

namespace kvloupe {

namespace {

/// One kind of tokenizer: the file that shows it is there, and how the folder is opened.
struct TokenizerKind {
  const char* file;
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& folder);
};

/// Every kind, one line each; the first that exists and is supported is used. tokenizer.json comes
/// first because it also has the added tokens of chat templates, which a text may contain.
constexpr std::array kKinds{
    TokenizerKind{"tokenizer.json", open_hugging_face_tokenizer},
    TokenizerKind{"tokenizer.model", open_sentencepiece_tokenizer},
};

bool is_there(const TokenizerKind& kind, const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / kind.file, ignored);
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) {
  if (is_gguf_file(folder)) return has_gguf_tokenizer(folder);
  return std::any_of(kKinds.begin(), kKinds.end(),
                     [&](const TokenizerKind& kind) { return is_there(kind, folder); });
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder) {
  if (is_gguf_file(folder)) return open_gguf_tokenizer(folder);
  std::optional<UnsupportedTokenizer> refusal;
  std::string known;
  for (const TokenizerKind& kind : kKinds) {
    known += (known.empty() ? "" : " or ") + std::string(kind.file);
    if (!is_there(kind, folder)) continue;
    try {
      return kind.open(folder);
    } catch (const UnsupportedTokenizer& error) {
      if (!refusal) refusal = error;
    }
  }
  if (refusal) throw *refusal;
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) throw FileError(folder.string(), "does not exist");
  throw FileError(folder.string(), "contains no " + known + "; give token ids with --ids");
}

}  // namespace kvloupe
