#include "analysis/study/study_measures.h"

#include <vector>

#include "analysis/replay/measure/measure_catalog.h"

namespace kvloupe {

std::span<const StudyMeasure> task_measures() {
  static const std::vector<StudyMeasure> all = {
      {"needle_found", kNeedleTask, "Needles found", "", Better::larger, true,
       "1 if the first number of the answer is the needle's, else 0"},
      {"needle_hidden_distance", kNeedleTask, "Distance of hidden states ‖h′ − h‖/‖h‖", "",
       Better::smaller, false,
       "‖h′ − h‖₂ / ‖h‖₂ after each layer at the prompt's last token, h of the full cache"},
      {"answer_found", kAnswerTask, "Answers found", "", Better::larger, true,
       "1 if the model's text contains one of the prompt's answers (RULER), else 0"},
      {"answer_f1", kAnswerTask, "F1 of answers", "", Better::larger, true,
       "largest F1 of the words of the model's text and those of an answer (LongBench)"},
      {"answer_loops", kAnswerTask, "Answers that loop", "", Better::smaller, true,
       "1 if a span of the answer stands three times or more in a row, 16 tokens or more in all, "
       "else 0"},
      {"answer_loop_begin", kAnswerTask, "Where the first loop begins", "tokens", Better::larger,
       false, "tokens of the answer before its first loop; unknown for an answer without a loop"},
      {"answer_hidden_distance", kAnswerTask, "Distance of hidden states ‖h′ − h‖/‖h‖", "",
       Better::smaller, false,
       "‖h′ − h‖₂ / ‖h‖₂ after each layer at the prompt's last token, h of the full cache"},
      {"perplexity_loss", kPerplexityTask, "Loss", "nats", Better::smaller, false,
       "mean −log p of the text's tokens"},
      {"perplexity_loss_difference", kPerplexityTask, "Δ loss", "nats", Better::smaller, false,
       "loss less that of the full cache", 0.0},
      {"perplexity_kl", kPerplexityTask, "KL", "nats", Better::smaller, false,
       "KL(full ‖ policy) of the next-token distributions, mean over the tokens", 0.0},
      {"perplexity_same_top1", kPerplexityTask, "Same top-1 token", "", Better::larger, true,
       "share of tokens with the full cache's most probable next token", 1.0},
      {"perplexity_hidden_distance", kPerplexityTask, "Distance of hidden states ‖h′ − h‖/‖h‖", "",
       Better::smaller, false, "‖h′ − h‖₂ / ‖h‖₂ after each layer, mean over the tokens"},
      {kAgreement, kDriftTask, "Agreement of open and closed loop J", "", Better::larger, true,
       "|A ∩ B| / |A ∪ B| of the sets that the replay and the run in the model retain, mean over "
       "the steps from the first eviction on"},
      {"drift_key_distance", kDriftTask, "Distance of keys", "", Better::smaller, false,
       "√(Σ‖k − k′‖² / Σ‖k‖²) by layer, k of the full cache"},
      {"drift_output_distance", kDriftTask, "Distance of attention outputs", "", Better::smaller,
       false, "√(Σ‖o − o′‖² / Σ‖o‖²) by layer, o of the full cache, before W_O"},
      {"drift_same_top1", kDriftTask, "Same top-1 token", "", Better::larger, true,
       "share of tokens with the full cache's most probable next token"},
      {"drift_loss_difference", kDriftTask, "Δ loss", "nats", Better::smaller, false,
       "mean −log p of the prompt's tokens less that of the full cache"},
      // Later than the others: studies of earlier versions go on.
      {"answer_all", kAnswerTask, "Share of the answers found", "", Better::larger, true,
       "share of the prompt's answers that the model's text contains (RULER, where all are asked "
       "for)"},
      {"answer_rules", kAnswerTask, "Share of the rules followed", "", Better::larger, true,
       "share of the prompt's rules that the model's text obeys; unknown for a prompt without "
       "rules"},
  };
  return all;
}

bool ranks_heads(std::string_view name) {
  const Measure* known = find_measure(name);
  return known == nullptr || known->info->one_value_for == OneValueFor::head;
}

std::optional<StudyMeasure> find_study_measure(std::string_view name) {
  for (const StudyMeasure& one : task_measures()) {
    if (one.name == name) return one;
  }
  if (const Measure* known = find_measure(name)) {
    const MeasureInfo& info = *known->info;
    return StudyMeasure{info.name,   kReplayTask, info.title,  info.unit,
                        info.better, info.share,  info.formula};
  }
  return std::nullopt;
}

}  // namespace kvloupe
