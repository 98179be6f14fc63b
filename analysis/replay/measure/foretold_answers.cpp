// Written by scripts/claims/foretell_page.py from the results of scripts/claims/foretell.sh. Do not
// edit.
#include "analysis/replay/measure/foretold_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/text/unknown.h"

namespace kvloupe {

ForetoldStudy foretold_study() { return {.needles = 31, .things = 21, .settings = 24}; }

const std::vector<ForetoldAnswers>& foretold_answers() {
  static_cast<void>(kUnknown);
  static const std::vector<ForetoldAnswers> all = {
      {"answer_residual_change", 0.83, 0.83},
      {"answer_worst_layer_error", 0.87, 0.81},
      {"later_worst_layer_error", 0.69, kUnknown},
      {"answer_layer_error", 0.67, 0.68},
      {"answer_residual_part", 0.66, 0.73},
      {"answer_output_error", 0.65, 0.71},
      {"answer_perturbation_l1", 0.65, 0.72},
      {"later_output_error", 0.62, kUnknown},
      {"answer_logit_change", kUnknown, 0.61},
      {"later_residual_change", 0.61, kUnknown},
      {"later_layer_error", 0.60, kUnknown},
      {"question_logit_change", kUnknown, 0.57},
      {"output_error", 0.56, 0.68},
      {"later_residual_part", 0.54, kUnknown},
      {"later_bound_l1", 0.51, kUnknown},
      {"later_perturbation_l1", 0.51, kUnknown},
      {"question_worst_layer_error", 0.51, 0.81},
      {"question_output_error", 0.50, 0.78},
      {"question_residual_part", 0.50, 0.79},
      {"question_layer_error", 0.49, 0.77},
      {"answer_bound_l1", 0.48, 0.70},
      {"question_perturbation_l1", 0.46, 0.77},
      {"question_residual_change", 0.46, 0.81},
      {"perturbation_l1", 0.45, 0.63},
      {"later_kept_attention", 0.40, kUnknown},
      {"question_bound_l1", 0.40, 0.74},
      {"question_kept_attention", 0.38, 0.71},
      {"bound_l1", 0.33, 0.65},
      {"answer_kept_attention", 0.31, 0.60},
      {"retained_mass", 0.27, 0.52},
  };
  return all;
}

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
