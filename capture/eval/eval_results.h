#pragma once

#include <string>

#include "analysis/evaluation/evaluation.h"

namespace kvloupe {

/// The results of an evaluation while it goes on. Runs that are already in the file are not
/// repeated.
class EvalResults {
 public:
  /// Continues with the file at `path`, or starts with these settings if there is none. Throws
  /// FileError if the file contains anything but results of the same settings.
  EvalResults(std::string path, const EvaluationSettings& settings);

  /// Of the model; written beside the settings, so that a program finds its folder again.
  void set_fingerprint(std::string fingerprint);

  /// Whether the file has a run of the same case.
  bool has(const EvaluationRun& like) const;
  void add(EvaluationRun run);
  /// The number of a prompt that runs name as theirs: of an equal one that the file has, or of this
  /// one, which it then has. −1 where the prompts have become too large to be kept.
  int prompt(std::string prompt);
  /// Writes the whole file, in full or not at all. Throws FileError.
  void save() const { write_evaluation(all_, path_); }

  const Evaluation& all() const { return all_; }

 private:
  std::string path_;
  Evaluation all_;
  std::size_t prompt_bytes_ = 0;
};

}  // namespace kvloupe
