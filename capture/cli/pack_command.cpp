// kvloupe-capture pack: a trace that takes its weights from the cache folder, as one that holds
// them.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "analysis/base/core/error.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_size.h"
#include "capture/cli/commands.h"
#include "capture/cli/interrupt.h"
#include "capture/cli/shared_options.h"
#include "capture/run/model_weights.h"

namespace kvloupe::capture_cli::pack_verb {

namespace {

struct PackOptions {
  std::filesystem::path trace, target;
  ModelChoice model;
  bool lm_head = false;
};

int pack(const PackOptions& options) {
  Progress progress;
  const InterruptGuard guard(progress);
  check_output(options.target, options.model, {options.trace});
  if (!options.model.path.empty()) restore_weights(options.trace, options.model, progress);
  pack_trace(options.trace, options.target, options.lm_head);
  fmt::print("{}: {}, holds all that it needs\n", options.target.string(),
             bytes_text(std::filesystem::file_size(options.target)));
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<PackOptions>(
      app, action, "pack",
      "Copy a trace together with the weights that it takes from the cache folder", pack);
  verb->add_option("TRACE", options->trace, "A trace that run --shared-weights or the window made")
      ->required();
  verb->add_option("-o,--output", options->target, "The trace to write")->required();
  verb->add_option(
      "--model", options->model.path,
      "The model that made it, a folder or a GGUF file: writes its weights to the cache "
      "folder first, if they are not there any more");
  verb->add_flag("--lm-head", options->lm_head,
                 "With the whole output head; without this option only if it takes at most 16 MB "
                 "and less than the states, else its rows of the trace's own tokens, up to 16 MB");
}

}  // namespace kvloupe::capture_cli::pack_verb
