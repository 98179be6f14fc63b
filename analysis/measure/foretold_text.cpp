#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/measure/foretold_answers.h"

namespace kvloupe {

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
  if (measure == "answer_residual_change") text += kForetoldOnOtherModels;
  return text;
}

}  // namespace kvloupe
