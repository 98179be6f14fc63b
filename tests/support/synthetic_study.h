#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace kvloupe::test {

inline constexpr int kStudyPrompts = 8, kStudyPolicies = 3, kStudyBudgets = 3;
inline constexpr int kStudyLayers = 3, kStudyHeads = 2;

/// The value of a head in the file below; policy 0 is h2o, 1 keydiff, 2 snapkv+critical; budget 0
/// is 10%, 1 25%, 2 50%. Falls with the budget; the policies' order differs on prompts 3 and 6.
double study_value(int prompt, int policy, int budget, int layer, int head);

/// Writes a results file as kvloupe study does, with all items done: replays of t0.h5 to t7.h5 with
/// perturbation_l1 (study_value) and retained_mass (1 − study_value / 4), and the same prompts as
/// task drift with drift_agreement (1 − study_value / 8), each by head; and the task perplexity
/// with perplexity_loss (2 + study_value, without values by head), and 2 of the full cache. Returns
/// the path. Of other numbers of prompts, as many.
std::filesystem::path write_synthetic_study(const std::filesystem::path& path,
                                            int prompts = kStudyPrompts);

/// A copy of that file, written once in a program: each item is on the disk before the next one,
/// which takes longer than most tests.
struct MadeStudy {
  MadeStudy();
  void change(const std::string& sql) const;
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "study.sqlite";
};

}  // namespace kvloupe::test
