#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace kvloupe {

/// How the program keeps weights whose file has another type than the run (see load_transformer).
enum class WeightStorage { automatic, expanded, packed };

/// The model of a run, as a command line names it.
struct ModelChoice {
  std::filesystem::path path;       // a folder in Hugging Face's layout, or a GGUF file
  std::filesystem::path tokenizer;  // a folder or GGUF file whose tokenizer is used; empty: its own
  WeightStorage weights = WeightStorage::automatic;
  bool chat = false;   // prompts are messages in the model's chat template
  std::string system;  // the message before them; empty: none

  ModelChoice() = default;
  ModelChoice(std::filesystem::path model) : path(std::move(model)) {}  // NOLINT: it is its path
  /// The tokenizer's place.
  const std::filesystem::path& tokenizer_place() const {
    return tokenizer.empty() ? path : tokenizer;
  }
};

}  // namespace kvloupe
