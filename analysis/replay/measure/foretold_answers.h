#pragma once
// How well the numbers of a replay foretold a real model's answers: the study of
// scripts/claims/foretell.sh, on docs/results-real.md.

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// Spearman's ρ of one measure's mean and the share of prompts that the running model answers, over
/// the settings of the study; turned so that 1 foretells. NaN: not measured there.
struct ForetoldAnswers {
  std::string_view measure;
  double needles = 0.0;  // prompts that ask for a number hidden in an essay
  double things = 0.0;   // for a word, in other words than the essay's
};

/// How much that rests on: prompts of each kind that the full cache answers, policies × budgets.
struct ForetoldStudy {
  int needles = 0, things = 0, settings = 0;
};
ForetoldStudy foretold_study();

/// Every measure of the study, the best first.
const std::vector<ForetoldAnswers>& foretold_answers();

/// The same number of answer_residual_change in studies that are too small for a list, with 95 %
/// intervals.
inline constexpr const char* kForetoldOnOtherModels =
    " On Qwen2.5-Coder-0.5B: 0.77 (0.41 to 0.91; 8 prompts). On Gemma 3 270M it did no better than "
    "chance: 0.02 (−0.36 to 0.51).";

/// A sentence that says so of one measure; empty for a measure that was not in the study.
std::string foretold_text(std::string_view measure);

}  // namespace kvloupe
