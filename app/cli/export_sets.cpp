// kvloupe export-sets: which tokens a policy keeps, for engines that take kept tokens back.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/replay/kept_sets_file.h"
#include "app/cli/commands.h"
#include "app/cli/shared_options.h"

namespace kvloupe::cli::export_sets_verb {

namespace {
struct Options : ReplayOptions {
  std::vector<std::string> outputs;
  KeptSteps steps = KeptSteps::all;
};

bool is_tensors(const std::string& output) { return output.ends_with(".safetensors"); }

int run_export_sets(const Options& options) {
  refuse_same_outputs(options.outputs);
  for (const std::string& output : options.outputs) {
    if (output != "-" && !is_tensors(output) && !output.ends_with(".json")) {
      throw UsageError("-o " + output + ": the name must end with .json or .safetensors");
    }
    refuse_own_input(output, {options.trace});
  }
  std::optional<Trace> trace;
  ReplayRequest request = options.open(trace);
  request.metrics = false;
  std::vector<std::unique_ptr<OutputFile>> files;  // first: a wrong target is known before the work
  for (const std::string& output : options.outputs) {
    files.push_back(std::make_unique<OutputFile>(output));
  }
  Progress progress;
  const Replay replayed = replay(*trace, request, progress);
  const std::vector<int> steps = kept_steps(replayed, options.steps, trace->run().prompt_length);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto write =
        is_tensors(options.outputs[i]) ? write_kept_sets_tensors : write_kept_sets_json;
    write(replayed, options.trace, steps, options.steps == KeptSteps::prompt_end,
          [&](std::string_view text) { files[i]->write(text); });
  }
  for (const auto& file : files) file->finish();
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] =
      Verb<Options>(app, action, "export-sets",
                    "Write which tokens a policy keeps, per layer and head, as JSON or safetensors",
                    run_export_sets);
  options->add_replay(*verb);
  verb->add_option("-o,--output", options->outputs,
                   "The file, whose name ends with .json or .safetensors; - for JSON on standard "
                   "output; may be repeated")
      ->required();
  add_choice_option(*verb, "--steps", options->steps,
                    {{"all", KeptSteps::all}, {"prompt", KeptSteps::prompt_end}},
                    "all: the set after every step; prompt: only that after the prompt, which the "
                    "policy external then keeps from there on");
  verb->footer(
      "The policy external(\"FILE\") shows the sets of such a file, whoever wrote it:\n"
      "  kvloupe export-sets trace.h5 --policy h2o+shared --budget 25% -o sets.json\n"
      "  kvloupe replay trace.h5 --policy 'external(\"sets.json\")' --budget 25%");
}

}  // namespace kvloupe::cli::export_sets_verb
