#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/model_info.h"
#include "capture/model/model_config.h"
#include "capture/run/capture.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The tokens a run starts from.
struct CaptureInput {
  std::unique_ptr<Tokenizer> tokenizer;  // null if the folder has none (only with --ids)
  TokenSequence tokens;                  // the prompt, then the tokens that are forced as generated
  int prompt_length = 0;
  std::vector<std::string> notes;
};

/// Reads and tokenizes the prompt, or reads the ids. Throws FileError, UsageError.
CaptureInput read_capture_input(const CaptureRequest& request, const ModelConfig& config);

/// A note for a run of so many tokens, where the model was made for fewer positions; else empty.
std::string beyond_positions(std::int64_t tokens, const ModelConfig& config);

/// A note where a trace says that a model of another fingerprint made it; else empty.
std::string other_model_note(const std::filesystem::path& trace, const std::string& fingerprint);

/// Compares the texts of a trace's tokens with those of the same ids in a tokenizer: a note where
/// some differ, else empty. Throws FileError where more than a tenth do: the ids are of another
/// tokenizer, and mean another text.
std::string compare_texts(const std::filesystem::path& trace, const TokenTable& tokens,
                          const Tokenizer& tokenizer);

/// Throws FileError, naming the model's folder, if its tokenizer gave an id for which the model has
/// no embedding.
void check_vocabulary(std::span<const std::int32_t> ids, const ModelConfig& config,
                      const std::filesystem::path& model);

/// Whether this token ends the generation, according to config.json and generation_config.json, or
/// else the tokenizer.
bool ends_text(std::int32_t id, const ModelConfig& config, const Tokenizer* tokenizer);

}  // namespace kvloupe
