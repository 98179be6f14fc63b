#include "capture/cli/model_options.h"

#include <map>
#include <string>

namespace kvloupe::capture_cli {

void add_tokenizer_option(CLI::App& verb, ModelChoice& choice) {
  verb.add_option("--tokenizer", choice.tokenizer,
                  "Folder (or GGUF file) whose tokenizer is used in place of the model's own");
}

void add_weights_option(CLI::App& verb, ModelChoice& choice) {
  const std::map<std::string, WeightStorage> words{{"auto", WeightStorage::automatic},
                                                   {"expanded", WeightStorage::expanded},
                                                   {"packed", WeightStorage::packed}};
  verb.add_option("--weights", choice.weights,
                  "Weights whose file stores another type than the run's: expanded once at the "
                  "start; packed, where a layer's are expanded each time it is its turn, with the "
                  "memory of one layer; auto: packed where the expanded ones would not fit")
      ->transform(CLI::Transformer(words))
      ->option_text("auto|expanded|packed");
}

void add_model_options(CLI::App& verb, ModelChoice& choice) {
  verb.add_option("--model", choice.path,
                  "Hugging Face model folder, or a GGUF file (the first part of a split one)")
      ->required();
  add_tokenizer_option(verb, choice);
  add_weights_option(verb, choice);
}

}  // namespace kvloupe::capture_cli
