// lost evidence: what became of the tokens that an answer rests on, and why.

#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily lost_evidence() {
  MeasureFamily family;
  family.group = MeasureGroup::later;
  family.name = "Why the evidence was lost";
  family.remark =
      "The evidence: the tokens of the segment \"needle\"; NaN if the trace has none, or no answer "
      "after it. Counted are all pairs of a query q that writes the answer and a token i of the "
      "evidence that q can see. In each head, a pair is one of four, whose shares add up to 1. "
      "Kept: the cache holds the entry when q comes. Else not seen: with the full cache, the "
      "queries give the evidence less attention than an even spread over all tokens that they see; "
      "the head does not read it. Else cut by the allocation: in a second replay in which every "
      "head has the budget N, without the allocation (adakv, pyramid, headbudgets and so on; not "
      "duo), the policy keeps the entry. Else ranked low: the policy loses it there, too, because "
      "its score ranks others higher (or because it was merged, or dropped by a person). Entries "
      "count alike; to weigh heads, multiply by evidence_attention.";
  family.scope = MeasureScope::queries;
  family.on_request = true;
  family.of_evidence = true;
  const StateParts reads = StateParts::keys_only();  // replay/evidence.cpp reads the rest
  family.measures = {
      {.name = "evidence_attention",
       .title = "Attention to the evidence",
       .formula = "a = mean over q and the head's query heads of the sum over i of A[q,i]",
       .source = "ours",
       .share = true,
       .help = "How much of their attention the answer's queries give to the evidence, with the "
               "full cache.",
       .reads = reads},
      {.name = "evidence_kept",
       .title = "Evidence kept",
       .formula = "share of the pairs (q, i) in which the cache holds i when q comes",
       .source = "ours",
       .better = Better::larger,
       .share = true,
       .help = "How much of the evidence the head's cache still holds for the answer's queries.",
       .reads = reads},
      {.name = "evidence_unseen",
       .title = "Evidence lost, not seen",
       .formula = "share of the pairs that are lost, if a < mean over q of (tokens of the evidence "
                  "that q sees / all tokens that q sees); else 0",
       .source = "ours, after arXiv 2605.08234",
       .share = true,
       .help = "The head lost it, but does not read it: the full cache's attention to the evidence "
               "is below an even spread.",
       .reads = reads},
      {.name = "evidence_misranked",
       .title = "Evidence lost, ranked low",
       .formula = "share of the pairs that are lost in a head with a at or above the even spread, "
                  "and lost with the budget N in every head as well",
       .source = "ours, after arXiv 2605.08234",
       .better = Better::smaller,
       .share = true,
       .help = "The head reads it, and the policy's score puts it below the place that the budget "
               "allows.",
       .reads = reads},
      {.name = "evidence_cut",
       .title = "Evidence lost, cut by the allocation",
       .formula = "share of the pairs that are lost in a head with a at or above the even spread, "
                  "but kept with the budget N in every head",
       .source = "ours, after arXiv 2605.08234",
       .better = Better::smaller,
       .share = true,
       .help = "The head reads it, and a uniform budget would have kept it: the allocation gave "
               "this head too few places.",
       .reads = reads},
      {.name = "layer_eviction_ratio",
       .title = "Evidence that no head of the layer holds",
       .formula = "share of the pairs (q, i) for which no head of the layer holds i when q comes",
       .source = "ours: the Global Eviction Ratio of one layer",
       .better = Better::smaller,
       .share = true,
       .one_value_for = OneValueFor::layer,
       .help = "How much of the evidence is gone from all heads of the layer.",
       .reads = reads},
      {.name = "global_eviction_ratio",
       .title = "Global Eviction Ratio",
       .formula = "share of the pairs (q, i) for which no head of any layer holds i when q comes",
       .source = "Ananthanarayanan et al. 2026 (arXiv 2603.01426), of the evidence",
       .better = Better::smaller,
       .share = true,
       .one_value_for = OneValueFor::model,
       .help = "How much of the evidence is gone from every head of every layer.",
       .reads = reads},
  };
  return family;
}

}  // namespace kvloupe::measures
