#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <vector>

#include "capture/model/model_choice.h"

namespace kvloupe::capture_cli {

/// --tokenizer. `choice` must outlive the parsing, as below.
void add_tokenizer_option(CLI::App& verb, ModelChoice& choice);
/// --weights.
void add_weights_option(CLI::App& verb, ModelChoice& choice);
/// --model, --tokenizer and --weights.
void add_model_options(CLI::App& verb, ModelChoice& choice);

/// Throws FileError where a command's output is one of its files: one that the model is in, its
/// tokenizer's, or one of `others`. Traces may stand beside a model.
void check_output(const std::filesystem::path& output, const ModelChoice& model,
                  std::vector<std::filesystem::path> others);

}  // namespace kvloupe::capture_cli
