#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/cache/evicting_layer.h"
#include "capture/model/model_choice.h"
#include "capture/tokenizer/prompt.h"

namespace kvloupe {

/// One run of an evaluation with needles, or of a study, ready to be run again.
struct EvalCase {
  TokenSequence tokens;  // the prompt, with its segments
  std::string policy;    // canonical spec; "full": the full cache
  std::string budget;    // as written
  std::string dtype = "auto";
  int block = 128;
  Positions positions = Positions::original;
  bool context_only = false;              // the evaluation stopped evicting at the question
  int answer_tokens = 1;                  // largest number of tokens to generate; 0: none
  std::string expected;                   // the number; empty: one of `answers`
  std::vector<std::string> answers = {};  // right ones, of a study's task answer
  std::string probe;  // how the policy's run read the context again; empty: it did not
};

/// The inputs from which a case can be made again.
struct EvalCaseRequest {
  std::filesystem::path results;  // of kvloupe-capture eval --task needle, or of a study
  int row = 0;                    // of its runs, from 0; of a study: its item
  ModelChoice model;
  std::optional<std::filesystem::path> needle_template;  // as given to the evaluation
  std::optional<std::filesystem::path> filler;
};

/// The prompt of a row: as the results carry it; of results of earlier versions made again, from
/// the settings in the file and the model's tokenizer. Throws FileError for results that are
/// broken or of another task, or without the prompt and of another template or tokenizer, and for
/// results of a study that kept no prompts; UsageError for a row that there is not, and for a
/// study's replay.
EvalCase eval_case(const EvalCaseRequest& request);

}  // namespace kvloupe
