#pragma once
// Options that several verbs have, each declared once. The target of an option must outlive the
// parsing.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/model_info.h"
#include "capture/eval/eval_case.h"
#include "capture/model/model_choice.h"
#include "capture/run/probe_kind.h"

namespace kvloupe::capture_cli {

/// --tokenizer and --weights, and with `model` the model itself.
void add_model_options(CLI::App& verb, ModelChoice& choice, bool model = true);
void add_tokenizer_option(CLI::App& verb, ModelChoice& choice);
/// --device and --threads.
void add_device_options(CLI::App& verb, std::string& device, int& threads,
                        const std::string& threads_help = "Threads for the model's products");
/// --chat and --system.
CLI::Option* add_chat_options(CLI::App& verb, ModelChoice& choice);
CLI::Option* add_dtype_option(CLI::App& verb, std::string& dtype);
/// --block; `tokens` checks it.
CLI::Option* add_block_option(CLI::App& verb, int& block, const CLI::Validator& tokens);
void add_positions_option(CLI::App& verb, Positions& positions);
/// --probe; `help` says what else follows from it.
void add_probe_option(CLI::App& verb, std::optional<ProbeKind>& probe, const std::string& help);
/// --progress.
void add_progress_option(CLI::App& verb, std::string& progress);
/// The options that belong to `--results`, an option of `verb`: the run, and the inputs of the
/// evaluation besides the model.
void add_case_options(CLI::App& verb, CLI::Option* results, EvalCaseRequest& from);

/// Throws FileError where a command's output is one of its files: one that the model is in, its
/// tokenizer's, or one of `others`. Traces may stand beside a model.
void check_output(const std::filesystem::path& output, const ModelChoice& model,
                  std::vector<std::filesystem::path> others);

}  // namespace kvloupe::capture_cli
