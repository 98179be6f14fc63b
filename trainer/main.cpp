// kvloupe-train: makes the demo model. A program for developers; it is not installed.

#include <ATen/Context.h>
#include <torch/types.h>
#include <torch/version.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "analysis/error.h"
#include "analysis/failure.h"
#include "capture/run/compute.h"
#include "trainer/prompt_file.h"
#include "trainer/prompt_set.h"
#include "trainer/report.h"
#include "trainer/trainer.h"

namespace {

using namespace kvloupe;
using namespace kvloupe::train;

void print_corpus(const std::string& recipe_path, int stage, int count) {
  const Recipe recipe = read_recipe(recipe_path);
  if (stage < 0 || stage >= static_cast<int>(recipe.stages.size())) {
    throw UsageError("--stage " + std::to_string(stage) + ": the recipe has the stages 0 to " +
                     std::to_string(recipe.stages.size() - 1));
  }
  const Stage& chosen = recipe.stages[static_cast<std::size_t>(stage)];
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, recipe.seed);
  for (int i = 0; i < count; ++i) {
    const auto sequence = corpus.sequence(static_cast<std::uint64_t>(i), chosen.length, chosen.mix);
    std::printf("%s\n\n", vocabulary.text(sequence.ids).c_str());
  }
}

/// The prompts that ship with the model.
void write_prompts(const std::string& folder, std::uint64_t seed) {
  struct Shipped {
    const char* name;
    int length;
    int needles;
  };
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, seed);
  std::filesystem::create_directories(folder);
  std::uint64_t index = 0;
  for (const Shipped& shipped :
       {Shipped{"needle.txt", 480, 1}, {"four-needles.txt", 480, 4}, {"long.txt", 3000, 1}}) {
    const std::string path = (std::filesystem::path(folder) / shipped.name).string();
    const NeedlePrompt prompt = corpus.needle_prompt(index++, shipped.length, shipped.needles);
    std::ofstream file(path, std::ios::binary);
    file << prompt_file(prompt, vocabulary);
    file.close();
    if (!file) throw FileError(path, "cannot be written; check free space and permissions");
    const TokenId answer = prompt.answers[static_cast<std::size_t>(prompt.asked)];
    std::printf("%s: %zu tokens, answer%s\n", path.c_str(), prompt.ids.size(),
                (" " + vocabulary.text({&answer, 1})).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes kvloupe's demo model: generates the corpus, trains the model, measures it.");
  app.require_subcommand(1);
  std::string recipe_path;
  std::string device = "cpu";
  int stage = 0;
  int count = 3;
  bool float32 = false;
  TrainOptions options;

  CLI::App* corpus = app.add_subcommand("corpus", "Print sequences of the training corpus");
  corpus->add_option("--recipe", recipe_path, "Recipe (JSON)")->required();
  corpus->add_option("--stage", stage, "Stage of the curriculum, from 0");
  corpus->add_option("--count", count, "Number of sequences");

  CLI::App* train_verb =
      app.add_subcommand("train", "Train, or continue from the folder's checkpoint");
  train_verb->add_option("--recipe", recipe_path, "Recipe (JSON)")->required();
  train_verb->add_option("-o,--output", options.folder, "Folder for the model, log and checkpoint")
      ->required();
  train_verb->add_option("--start", options.start, "Model folder with the weights to start from");
  train_verb->add_option("--device", device, "cpu, cuda or cuda:i");
  train_verb->add_flag(
      "--float32", float32,
      "Do not use bfloat16 matrix products (default: bfloat16 if the device supports it)");
  train_verb->add_option("--seconds", options.seconds,
                         "Stop after this time; training can be resumed");
  train_verb->add_option("--log-every", options.log_every, "Steps between lines of the log")
      ->check(CLI::Range(1, 1 << 30));
  train_verb->add_option("--save-every", options.save_every, "Steps between checkpoints")
      ->check(CLI::Range(1, 1 << 30));
  train_verb
      ->add_option("--measure-every", options.measure_every, "Steps between measurements; 0: none")
      ->check(CLI::Range(0, 1 << 30));

  std::string model_folder;
  CLI::App* measure = app.add_subcommand("measure", "Measure a model on newly generated text");
  measure->add_option("--model", model_folder, "Model folder")->required();

  std::string prompt_folder;
  std::uint64_t prompt_seed = 7;
  PromptSetRequest set;
  set.kinds = {"mixed"};
  set.lengths = {512};
  CLI::App* prompt_set = app.add_subcommand(
      "prompt-set", "Write seeded prompts of given kinds and lengths, for studies");
  prompt_set->add_option("-o,--output", set.folder, "Folder for the prompt files")->required();
  prompt_set->add_option("--count", set.count, "Prompts of each kind and length")
      ->check(CLI::Range(1, 10'000));
  prompt_set->add_option("--kinds", set.kinds, "Kinds of prompts, separated by commas; see below")
      ->delimiter(',');
  prompt_set->add_option("--lengths", set.lengths, "Tokens of a prompt, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(2, 1 << 20));
  prompt_set->add_option("--seed", set.seed, "Other seeds give other prompts");
  prompt_set->add_flag("--jsonl", set.json_lines,
                       "Write KIND-LENGTH.jsonl, a prompt and its answer per line");
  std::string kinds = "Kinds:\n";
  for (const PromptKind& kind : prompt_kinds()) kinds += "  " + kind.name + ": " + kind.what + "\n";
  prompt_set->footer(kinds);

  CLI::App* prompts = app.add_subcommand("prompts", "Write the demo prompts");
  prompts->add_option("-o,--output", prompt_folder, "folder")->required();
  prompts->add_option("--seed", prompt_seed, "seed");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (corpus->parsed()) print_corpus(recipe_path, stage, count);
    if (train_verb->parsed()) {
      // A head that rests on one token gives the others weights near e^-90, and even smaller
      // gradients. Such numbers are slow on x86 (a step took more than twice as long) and have no
      // effect.
      at::globalContext().setFlushDenormal(true);
      options.device = parse_device(device);
      options.mixed_precision =
          parse_compute_type(float32 ? "f32" : "auto", options.device) == at::kBFloat16;
      train::train(read_recipe(recipe_path), options,
                   [](const std::string& line) { std::puts(line.c_str()), std::fflush(stdout); });
    }
    if (measure->parsed()) {
      report(model_folder,
             [](const std::string& line) { std::puts(line.c_str()), std::fflush(stdout); });
    }
    if (prompt_set->parsed()) write_prompt_set(set);
    if (prompts->parsed()) write_prompts(prompt_folder, prompt_seed);
    return 0;
  } catch (const std::exception&) {
    return report_failure("kvloupe-train");
  }
}
