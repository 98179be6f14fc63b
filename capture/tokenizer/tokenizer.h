#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/base/core/error.h"
#include "capture/tokenizer/chat_template.h"

namespace kvloupe {

/// One token of an encoded text and the bytes of the text it came from: [begin, end).
struct EncodedToken {
  std::int32_t id = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A model's tokenizer. One file per kind (kinds/tokenizer_catalog.cpp).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Number of ids: 0 … size() − 1.
  virtual std::int32_t size() const = 0;
  /// The token that a sequence starts with, if the tokenizer has one.
  virtual std::optional<std::int32_t> bos() const = 0;
  /// The token that ends a text, if there is one.
  virtual std::optional<std::int32_t> eos() const = 0;
  /// True for BOS, EOS and similar tokens that do not stand for text.
  virtual bool is_special(std::int32_t id) const = 0;
  /// Encodes any bytes, without BOS. Throws WorkError if the tokenizer fails.
  virtual std::vector<EncodedToken> encode(std::string_view text) const = 0;
  /// The bytes that the token stands for, not all of them text by themselves; the name of a special
  /// token. spell_bytes() shows them to a person.
  virtual std::string piece_bytes(std::int32_t id) const = 0;
  /// The text of a sequence, without special tokens.
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;

  /// With which encode_prompt() writes prompts as messages; null: it reads them as they are.
  std::shared_ptr<const ChatTemplate> chat;
};

/// The tokenizer file is valid but has a part that kvloupe does not support.
struct UnsupportedTokenizer : FileError {
  using FileError::FileError;
};

}  // namespace kvloupe
