#pragma once

#include <CLI/CLI.hpp>

#include "capture/eval/eval_case.h"

namespace kvloupe::capture_cli {

/// Adds what goes with `--results`, an option of `verb`: which run, and what the evaluation was
/// given besides the model.
void add_case_options(CLI::App& verb, CLI::Option* results, EvalCaseRequest& from);

}  // namespace kvloupe::capture_cli
