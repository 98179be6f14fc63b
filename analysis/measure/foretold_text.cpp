#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/measure/foretold_answers.h"

namespace kvloupe {

namespace {
// Of single studies, too small for the list. In parentheses 95 % intervals.
constexpr const char* kOfOtherModels =
    " On Qwen2.5-Coder-0.5B: 0.77 (0.41 to 0.91; 8 prompts). On Gemma 3 270M it did no better than "
    "chance: 0.02 (−0.36 to 0.51).";
}  // namespace

std::string foretold_text(std::string_view measure) {
  const std::vector<ForetoldAnswers>& all = foretold_answers();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const ForetoldAnswers& one) { return one.measure == measure; });
  if (found == all.end()) return {};
  const ForetoldStudy study = foretold_study();
  const auto number = [](double rho, int prompts, const char* of) {
    return std::isfinite(rho) ? fmt::format(" {:.2f} ({} {})", rho, prompts, of) : std::string();
  };
  const std::string needles = number(found->needles, study.needles, "needles");
  const std::string things = number(found->things, study.things, "things");
  if (needles.empty() && things.empty()) return {};
  std::string text = fmt::format(
      "How well it foretold the answers of SmolLM2-135M-Instruct, over {} policies and budgets: "
      "rank correlation{}{}{}; 1 would be perfect, 0 is chance (docs/results-real.md).",
      study.settings, needles, needles.empty() || things.empty() ? "" : ",", things);
  if (measure == "answer_residual_change") text += kOfOtherModels;
  return text;
}

}  // namespace kvloupe
