#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The tokenizer.json of Hugging Face's tokenizers library, for BPE models: byte-level ones (GPT-2,
/// Llama 3, Qwen) and those converted from SentencePiece (Llama 2, Mistral), with the same ids as
/// the library. docs/models.md lists the supported parts.
///
/// BOS is the token that the post-processor puts first, unless "add_bos_token" of
/// tokenizer_config.json in the same folder decides otherwise. Added tokens written in a text are
/// recognised. Throws FileError: missing, damaged, contradictory; UnsupportedTokenizer: a part that
/// kvloupe does not have.
std::unique_ptr<Tokenizer> open_hugging_face_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe
