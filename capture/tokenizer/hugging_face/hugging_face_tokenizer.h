#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "capture/tokenizer/tokenizer.h"
#include "capture/tokenizer/tokenizer_config.h"

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

/// The same from the parsed file, and the content of tokenizer_config.json. Errors name `path`, or
/// `config_path` if the two tokens around a text are wrong.
std::unique_ptr<Tokenizer> make_hugging_face_tokenizer(const nlohmann::json& root,
                                                       const TokenizerConfig& config,
                                                       const std::string& path,
                                                       const std::string& config_path);

}  // namespace kvloupe
