#include "capture/cli/shared_options.h"

#include <system_error>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/system/output_file.h"

namespace kvloupe::capture_cli {

void add_tokenizer_option(CLI::App& verb, ModelChoice& choice) {
  verb.add_option("--tokenizer", choice.tokenizer,
                  "Folder (or GGUF file) whose tokenizer is used in place of the model's own");
}

void add_model_options(CLI::App& verb, ModelChoice& choice, bool model) {
  if (model) {
    verb.add_option("--model", choice.path,
                    "Hugging Face model folder, or a GGUF file (the first part of a split one)")
        ->required();
  }
  add_tokenizer_option(verb, choice);
  add_choice_option(
      verb, "--weights", choice.weights,
      {{"auto", WeightStorage::automatic},
       {"expanded", WeightStorage::expanded},
       {"packed", WeightStorage::packed}},
      "Weights whose file stores another type than the run's: expanded once at the "
      "start; packed, where a layer's are expanded each time it is its turn, with the "
      "memory of one layer; auto: packed where the expanded ones would not fit");
}

void add_device_options(CLI::App& verb, std::string& device, int& threads,
                        const std::string& threads_help) {
  verb.add_option("--device", device, "cpu, cuda or cuda:i")->capture_default_str();
  verb.add_option("--threads", threads, threads_help)->check(CLI::Range(1, 4096));
}

CLI::Option* add_chat_options(CLI::App& verb, ModelChoice& choice) {
  CLI::Option* chat = verb.add_flag(
      "--chat", choice.chat,
      "Write each prompt as a message of the user with the model's own chat template, up to where "
      "the model's answer begins");
  verb.add_option("--system", choice.system, "With --chat: a message of the system before it")
      ->needs(chat);
  return chat;
}

CLI::Option* add_dtype_option(CLI::App& verb, std::string& dtype) {
  return verb
      .add_option("--dtype", dtype,
                  "Precision of the model: auto is bf16 on a GPU or a CPU with AMX, else f32")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
}

CLI::Option* add_block_option(CLI::App& verb, int& block, const CLI::Validator& tokens) {
  return verb.add_option("--block", block, "Prompt tokens that are run at once")
      ->transform(tokens)
      ->capture_default_str();
}

void add_positions_option(CLI::App& verb, Positions& positions) {
  add_choice_option(verb, "--positions", positions,
                    {{"original", Positions::original}, {"compact", Positions::compact}},
                    "Rotary positions of cached entries: those of their tokens, or their place in "
                    "the cache (not beyond a model's sliding window)");
}

void add_probe_option(CLI::App& verb, std::optional<ProbeKind>& probe, const std::string& help) {
  add_word_option(verb, "--probe", probe, probe_words(), help);
}

void add_progress_option(CLI::App& verb, std::string& progress) {
  verb.add_option("--progress", progress, "bar, json (one object per line on stdout) or none")
      ->check(CLI::IsMember({"bar", "json", "none"}))
      ->capture_default_str();
}

void add_case_options(CLI::App& verb, CLI::Option* results, EvalCaseRequest& from) {
  verb.add_option(
          "--row", from.row,
          "With --results: which of its runs, from 0 in the file's order; of a study: its item")
      ->needs(results)
      ->check(CLI::Range(0, 1 << 30));
  verb.add_option("--template", from.needle_template,
                  "With --results: the template that the evaluation was given")
      ->needs(results);
  verb.add_option("--filler", from.filler,
                  "With --results: the filler that the evaluation was given")
      ->needs(results);
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
