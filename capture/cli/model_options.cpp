#include "capture/cli/model_options.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "analysis/output_file.h"

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

void check_output(const std::filesystem::path& output, const ModelChoice& model,
                  std::vector<std::filesystem::path> others) {
  namespace fs = std::filesystem;
  for (const fs::path& place : {model.path, model.tokenizer_place()}) {
    std::error_code error;
    const bool is_folder = fs::is_directory(place, error);
    others.push_back(place);
    const fs::path folder = is_folder ? place : place.parent_path();
    for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
         at.increment(error)) {
      const std::string kind = at->path().extension().string();
      const bool is_part = is_folder ? kind != ".h5" && kind != ".hdf5" : kind == ".gguf";
      if (is_part && at->is_regular_file(error)) others.push_back(at->path());
    }
  }
  refuse_own_input(output, others);
}

}  // namespace kvloupe::capture_cli
