#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "capture/model/transformer.h"
#include "trainer/corpus.h"

namespace kvloupe::train {

/// Whether policies keep the entries that a question needs: open-loop replay of captured prompts.
struct Retention {
  std::string policy;  // canonical spec
  double share = 0.0;  // of the reading heads: how often the number's entry was there at the end
};

/// Captures `prompts` single-needle prompts of `length` tokens in blocks of 128 and replays each
/// policy at the budget (as written, e.g. "25%"). A query head is a reading head if the question's
/// last token gives the number at least 0.2 of its attention with the full cache. The share counts
/// how often its key-value head still holds that entry at the end. `readers` gets the number of
/// reading query heads over all prompts; without any, every share is NaN. Works in a folder for
/// temporary files. Throws FileError, UsageError, WorkError.
std::vector<Retention> measure_retention(const std::filesystem::path& model_folder,
                                         const Transformer& model, const Corpus& corpus,
                                         const std::vector<std::string>& policies,
                                         const std::string& budget, int length, int prompts,
                                         const std::filesystem::path& work_folder, int& readers);

/// Wall-clock seconds to capture the text (token ids, BOS first) as `kvloupe-capture` does, without
/// attention matrices, including opening the model. Leaves nothing outside work_folder. Throws as
/// measure_retention().
double measure_capture_seconds(const std::filesystem::path& model_folder,
                               const std::vector<TokenId>& ids,
                               const std::filesystem::path& work_folder);

}  // namespace kvloupe::train
