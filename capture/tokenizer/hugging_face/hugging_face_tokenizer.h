#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The tokenizer.json of Hugging Face's tokenizers library, BPE models: byte-level ones (GPT-2,
/// Llama 3, Qwen) and SentencePiece's made over (Llama 2, Mistral), with the ids the library gives.
/// docs/models.md lists the parts that are supported.
///
/// BOS is the token the post-processor puts first; "add_bos_token" of tokenizer_config.json beside
/// it, where given, decides instead. Added tokens written in a text are recognised. Throws
/// FileError: missing, damaged, contradictory; UnsupportedTokenizer: a part kvloupe does not have.
std::unique_ptr<Tokenizer> open_hugging_face_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe
