#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvloupe {

/// The results file of an evaluation (docs/evaluation.md): its settings, one object per run, and a
/// summary. Runs that are already in the file are not repeated.
class EvalResults {
 public:
  using Json = nlohmann::ordered_json;

  /// Continues with the file at `path`, or starts a new one if there is none. Throws FileError if
  /// the file contains anything but results of the same settings.
  EvalResults(std::string path, Json settings);

  /// Of the model; written beside the settings, so that a program finds its folder again.
  void set_fingerprint(std::string fingerprint) { fingerprint_ = std::move(fingerprint); }

  /// Whether the file has a run in which every member of `key` is equal.
  bool has(const Json& key) const;
  void add(Json run);
  /// The number of a prompt that runs name as their `prompt`: of an equal one that the file has, or
  /// of this one, which it then has. −1 where the prompts have become too large to be kept.
  int prompt(const Json& prompt);
  /// Writes the whole file, in full or not at all. Throws FileError.
  void save() const;

  const std::vector<Json>& runs() const { return runs_; }
  const Json& settings() const { return settings_; }

 private:
  std::string path_;
  std::string fingerprint_;
  Json settings_;
  std::vector<Json> runs_;
  std::vector<Json> prompts_;
  std::size_t prompt_bytes_ = 0;
};

/// Per policy and budget, in their order: the number of runs, and the means of their numbers: for
/// needles `accuracy`; for perplexity `loss`, `loss_difference`, `perplexity`, `kl`, `same_top1`;
/// for both the means of HiddenDrift::means(), each over the runs that have it.
nlohmann::ordered_json eval_summary(const std::vector<EvalResults::Json>& runs);

}  // namespace kvloupe
