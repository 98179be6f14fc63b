#pragma once

#include <CLI/CLI.hpp>

#include "capture/model/model_choice.h"

namespace kvloupe::capture_cli {

/// --tokenizer. `choice` must outlive the parsing, as below.
void add_tokenizer_option(CLI::App& verb, ModelChoice& choice);
/// --weights.
void add_weights_option(CLI::App& verb, ModelChoice& choice);
/// --model, --tokenizer and --weights.
void add_model_options(CLI::App& verb, ModelChoice& choice);

}  // namespace kvloupe::capture_cli
