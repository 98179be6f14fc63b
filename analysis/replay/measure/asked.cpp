// asked: what eviction changes for the queries of the question, of the answer and of later tokens.

#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
/// Whose queries, in a title and in the docs.
struct Words {
  const char* queries;
  const char* tokens;
};

Words words_of(Asked asked) {
  switch (asked) {
    case Asked::question:
      return {"question's queries", "the tokens of the segment \"question\"; NaN without one."};
    case Asked::answer:
      return {
          "answer's queries",
          "the queries that write the answer: of the tokens before each token of the segment "
          "\"answer\", or, without such a segment, before each generated token; NaN without any. "
          "In a trace of the full cache this is the full cache's answer."};
    case Asked::later:
      break;
  }
  return {
      "later queries",
      "the queries of all tokens after the first step; of more than 128 an evenly spaced sample "
      "of 128."};
}

MeasureFamily asked_by(Asked asked) {
  const Words words = words_of(asked);
  const std::string prefix = std::string(asked_name(asked)) + "_";
  const std::string title = std::string(", ") + words.queries;
  const std::string tail = std::string(", for the ") + words.queries + ".";
  MeasureFamily family;
  family.group = MeasureGroup::later;
  family.name = "Effect of eviction on the " + std::string(words.queries);
  family.remark = words.tokens;
  family.scope = MeasureScope::queries;
  family.on_request = true;
  family.asked = asked;
  family.measures = {
      {.name = prefix + "kept_attention",
       .title = "Attention kept" + title,
       .formula =
           "mean over q and the head's query heads of the sum of A_i over the tokens i whose "
           "entry the cache holds",
       .source = "CriticalKV theorem 3.3, for other queries",
       .better = Better::larger,
       .share = true,
       .help = "Attention on entries that the cache still holds when the query comes" + tail},
      {.name = prefix + "output_error",
       .title = "Output error" + title,
       .formula = "sum over q and the head's query heads of ||o - o'||^2 / sum of ||o||^2, before "
                  "W_O",
       .source = "ours, after CAOTE figure 3",
       .better = Better::smaller,
       .help = "Squared change of the head's outputs relative to their squared length, before the "
               "output projection" +
               tail},
      {.name = prefix + "perturbation_l1",
       .title = "Perturbation ℒ₁" + title,
       .formula = "mean over q and the head's query heads of ||(A - A') V W_O||_1",
       .source = "CriticalKV definition 2.1",
       .better = Better::smaller,
       .help = "Change ℒ of the head's part of the layer's output, in the L1 norm" + tail},
      {.name = prefix + "bound_l1",
       .title = "Bound θ₁" + title,
       .formula = "mean over q and the head's query heads of theta; NaN with synthetic entries",
       .source = "CriticalKV theorem 3.3",
       .better = Better::smaller,
       .help = "CriticalKV's upper bound θ of ℒ, in the L1 norm" + tail},
      {.name = prefix + "residual_part",
       .title = "Part of the change" + title,
       .formula = "sqrt(sum over q of ||sum over the head's query heads of (o' - o) W_O||^2 / sum "
                  "over q of ||sum over all heads of all layers of o W_O||^2)",
       .source = "ours",
       .better = Better::smaller,
       .help = "Length of the change in what the head adds to the residual stream, relative to "
               "what all heads of all layers add" +
               tail},
      {.name = prefix + "logit_part",
       .title = "Part of the logit's change" + title,
       .unit = "logits",
       .formula = "mean over q of the first-order change of the logit of the token that follows q "
                  "by the sum over the head's query heads of (o' - o) W_O, through the last norm "
                  "and the output head; later layers are left out",
       .source = "ours, after CAOTE eq. 42",
       .better = Better::larger,
       .any_origin = true,
       .help = "First-order change of the next token's logit by the change of this head's output" +
               tail},
      {.name = prefix + "layer_error",
       .title = "Layer's output error" + title,
       .formula =
           "sqrt(sum over q of ||sum over the layer's heads of (o' - o) W_O||^2 / sum over q "
           "of ||sum over the layer's heads of o W_O||^2)",
       .source = "ours, after CAOTE figure 3",
       .better = Better::smaller,
       .one_value_for = OneValueFor::layer,
       .help = "Change of the layer's attention output, its heads added with their signs, relative "
               "to that output" +
               tail},
      {.name = prefix + "worst_layer_error",
       .title = "Worst layer's output error" + title,
       .formula = "the largest of the layers' errors",
       .source = "ours",
       .better = Better::smaller,
       .one_value_for = OneValueFor::model,
       .help = "The largest of the layers' output errors" + tail},
      {.name = prefix + "residual_change",
       .title = "Change of all heads together" + title,
       .formula = "sqrt(sum over q of ||sum over all heads of all layers of (o' - o) W_O||^2 / sum "
                  "over q of ||sum over all heads of all layers of o W_O||^2)",
       .source = "ours",
       .better = Better::smaller,
       .one_value_for = OneValueFor::model,
       .help = "Change of what all heads of all layers add to the residual stream, relative to "
               "what they add" +
               tail},
      {.name = prefix + "logit_change",
       .title = "Change of the next token's logit" + title,
       .unit = "logits",
       .formula = "sum over all heads of all layers of their parts of the logit's change",
       .source = "ours, after CAOTE eq. 42",
       .better = Better::larger,
       .any_origin = true,
       .one_value_for = OneValueFor::model,
       .help = "First-order change of the next token's logit by the changes of all heads" + tail},
  };
  return family;
}
}  // namespace

MeasureFamily asked_by_question() { return asked_by(Asked::question); }
MeasureFamily asked_by_answer() { return asked_by(Asked::answer); }
MeasureFamily asked_by_later() { return asked_by(Asked::later); }

}  // namespace kvloupe::measures
