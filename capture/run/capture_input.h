#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capture/model/model_config.h"
#include "capture/run/capture.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The tokens a run starts from.
struct CaptureInput {
  std::unique_ptr<Tokenizer> tokenizer;  // null where the folder has none (with --ids only)
  TokenSequence tokens;                  // the prompt, then what is forced as generated
  int prompt_length = 0;
  std::vector<std::string> notes;
};

/// Reads and tokenizes the prompt, or reads the ids. Throws FileError, UsageError.
CaptureInput read_capture_input(const CaptureRequest& request, const ModelConfig& config);

/// Throws FileError, naming the model's folder, where its tokenizer gave an id that the model has
/// no embedding for.
void check_vocabulary(std::span<const std::int32_t> ids, const ModelConfig& config,
                      const std::filesystem::path& model);

/// Whether this token ends the generation: what config.json and generation_config.json say, else
/// the tokenizer.
bool ends_text(std::int32_t id, const ModelConfig& config, const Tokenizer* tokenizer);

}  // namespace kvloupe
