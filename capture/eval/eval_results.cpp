#include "capture/eval/eval_results.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analysis/error.h"

namespace kvloupe {

namespace {
constexpr std::size_t kMostPrompts = std::size_t{64} << 20U;  // bytes; the file is written often
}

EvalResults::EvalResults(std::string path, const EvaluationSettings& settings)
    : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) {
    static_cast<EvaluationSettings&>(all_) = settings;
    return;
  }
  try {
    all_ = read_evaluation(path_);
  } catch (const FileError&) {
    throw FileError(path_,
                    "does not contain results of this version; choose another name for the output");
  }
  if (static_cast<const EvaluationSettings&>(all_) != settings) {
    throw FileError(path_,
                    "contains results of other settings (model, block, template …); give the same "
                    "settings, or choose another name for the output");
  }
  for (const std::string& prompt : all_.prompts) prompt_bytes_ += prompt.size();
}

void EvalResults::set_fingerprint(std::string fingerprint) {
  all_.fingerprint = std::move(fingerprint);
}

bool EvalResults::has(const EvaluationRun& like) const {
  return std::any_of(all_.runs.begin(), all_.runs.end(),
                     [&](const EvaluationRun& run) { return run.is_of_same_case(like); });
}

void EvalResults::add(EvaluationRun run) { all_.runs.push_back(std::move(run)); }

int EvalResults::prompt(std::string prompt) {
  std::vector<std::string>& prompts = all_.prompts;
  const auto known = std::find(prompts.begin(), prompts.end(), prompt);
  if (known != prompts.end()) return static_cast<int>(known - prompts.begin());
  if (prompt_bytes_ + prompt.size() > kMostPrompts) return -1;
  prompt_bytes_ += prompt.size();
  prompts.push_back(std::move(prompt));
  return static_cast<int>(prompts.size()) - 1;
}

}  // namespace kvloupe
