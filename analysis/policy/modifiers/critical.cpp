// critical: CriticalKV's two-stage selection.

#include <algorithm>

#include "analysis/policy/kit/top_selection.h"
#include "analysis/policy/kit/value_out_norms.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
/// CriticalKV algorithm 1, on the b entries protection has left of a head's quota: ⌊αb⌋ by the
/// score s, the rest by (s + ε)·‖v_i W_O‖.
class CriticalSelection : public Selection {
 public:
  CriticalSelection(const SpecPart& part, const LayerContext& context)
      : alpha_(part.number("alpha")),
        epsilon_(part.number("eps")),
        of_budget_(part.word("of") == "budget"),
        norms_(context, part.word("norm") == "l1" ? Norm::l1 : Norm::l2) {
    norms_.check("critical");
  }

  bool needs_values() const override { return true; }

  void select(const StepView& view, int head, int count, double rows_summed,
              HeadDecision& decision) override {
    const std::vector<float>& scores = decision.scores;
    const auto is_protected =
        static_cast<int>(std::count_if(decision.fates.begin(), decision.fates.end(), [](Fate fate) {
          return fate != Fate::evicted && fate != Fate::dropped && fate != Fate::merged;
        }));
    // ⌊αb⌋ of the decimal a person wrote.
    const int share = static_cast<int>(
        Percent{alpha_}.of(100L * std::max(of_budget_ ? count + is_protected : count, 0)));
    const int first = std::clamp(of_budget_ ? share - is_protected : share, 0, std::max(count, 0));
    const Threshold one = mark_highest(scores, first, Fate::by_score, decision.fates);
    decision.threshold = one.value;
    decision.ties = one.ties;

    const std::vector<float>& norms = norms_.of(view, head);
    const double shift =
        std::min(0.0, static_cast<double>(*std::min_element(scores.begin(), scores.end())));
    decision.second_scores.resize(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double share = (static_cast<double>(scores[i]) - shift) / rows_summed;
      decision.second_scores[i] =
          static_cast<float>((share + epsilon_) * static_cast<double>(norms[i]));
    }
    decision.second_threshold =
        mark_highest(decision.second_scores, count - first, Fate::by_second_stage, decision.fates)
            .value;
  }

  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    norms_.retain(view, head, decision);
  }

 private:
  double alpha_;
  double epsilon_;
  bool of_budget_;
  ValueOutNorms norms_;
};
}  // namespace

void critical(PolicyEntry& entry) {
  entry.summary = "one part by the score, the rest by the score times the norm of the output";
  entry.formula =
      "of b places first floor(alpha b) by s_i, the rest by (s_i + eps) times the mean over the "
      "group of ||v_i W_O||; s = the score as attention per row";
  entry.source = "CriticalKV algorithm 1; norm=l2: appendix F";
  entry.needs = "the scores, values, W_O (or the stored norms of values times W_O)";
  entry.work = "values times W_O once per entry: d D operations; then n comparisons";
  entry.differences =
      "the paper's listing has alpha 0.25, its text and experiments 0.5. No theorem contains eps, "
      "but it matters most (kvpress: +2 points). The paper's base is snapkv(pool=max), also with "
      "adakv. kvpress counts protected entries in the first stage: of=budget";
  entry.parameters = {
      number_parameter("alpha", 0.5, 0.0, 1.0,
                       "share of the places that is filled by the score alone"),
      number_parameter("eps", 1e-4, 0.0, 1e6,
                       "added to the score, as attention per row, before the product"),
      word_parameter("norm", "l1", {"l1", "l2"}, "norm of the output v_i W_O"),
      word_parameter("of", "places", {"places", "budget"},
                     "alpha is a share of the places that protection leaves, or of "
                     "the head's whole budget, protected entries first")};
  entry.traits.reads_output_weights = true;
  entry.variants = {{"CriticalKV: text and experiments, α = 0.5", "critical"},
                    {"CriticalKV: the listing, α = 0.25", "critical(alpha=0.25)"},
                    {"CriticalKV appendix F: L2", "critical(norm=l2)"},
                    {"kvpress: protected entries first", "critical(of=budget)"}};
  entry.builder = SelectionBuilder{made_of<CriticalSelection>};
  entry.refusal = one_set_refusal;
  entry.doubts = [](const SpecPart& part, const PolicySpec& spec) {
    Lines doubts;
    const std::string name = spec.score().name;
    if (score_scale(spec) == ScoreScale::signed_own) {
      doubts.push_back("critical multiplies scores by norms: if scores of " + name +
                       " are negative, all are first shifted by their minimum");
    }
    if (base_scale(spec) != ScoreScale::attention) {
      doubts.push_back("critical is made for attention, and " + name +
                       " is not attention: the effect of eps = " + number_text(part.number("eps")) +
                       " is unknown");
    }
    return doubts;
  };
}

}  // namespace kvloupe::policies
