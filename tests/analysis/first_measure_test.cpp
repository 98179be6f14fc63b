// The order in which measures of a study are taken where nobody chose one.

#include "analysis/study/first_measure.h"

#include <gmock/gmock.h>

#include <cmath>

#include "analysis/study/study_measures.h"

namespace kvloupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two policies at one budget on one prompt: `unknown` has a row without a value under the second.
StudyTable made(std::vector<std::string> measures, const std::string& unknown = "") {
  StudyTable table;
  table.measures = std::move(measures);
  for (const char* policy : {"h2o", "keydiff"}) {
    StudyResults::Item item;
    item.trace = "prompt";
    item.policy = policy;
    item.budget = "10%";
    item.block_word = "128";
    table.items.push_back(item);
  }
  for (const std::string& name : table.measures) {
    table.values.push_back({0.5, name == unknown ? std::nan("") : 0.5});
    table.has_value.push_back({1, 1});
  }
  return table;
}

TEST(FirstMeasure, AnswersThenTheChangeThenWhatForetellsThenSharesThenTheRest) {
  const StudyTable study = made(
      {"role_sink", "retained", "bound_l1", "perplexity_loss", "evidence_kept", "retained_mass",
       "answer_worst_layer_error", "answer_residual_change", "needle_found", "answer_found"},
      "bound_l1");
  EXPECT_THAT(measures_in_order(study),
              ElementsAre("answer_found", "needle_found", "answer_residual_change",
                          "answer_worst_layer_error", "retained_mass", "evidence_kept",
                          "perplexity_loss", "role_sink", "retained", "bound_l1"));
  EXPECT_THAT(first_measure(study).why, HasSubstr("the model's own answers"));
  EXPECT_EQ(first_measure(StudyTable{}).name, "");
}

TEST(FirstMeasure, SaysHowWellItForetellsAndOnWhichModels) {
  const FirstMeasure first = first_measure(made({"retained_mass", "answer_residual_change"}));
  EXPECT_EQ(first.name, "answer_residual_change");
  for (const char* model : {"SmolLM2-135M", "Qwen2.5-Coder-0.5B: 0.77 (0.41 to 0.91",
                            "Gemma 3 270M it did no better than chance"})
    EXPECT_THAT(first.why, HasSubstr(model));
  EXPECT_THAT(first_measure(made({"bound_l1"})).why, HasSubstr("nor answer_residual_change"));
}

}  // namespace
}  // namespace kvloupe
