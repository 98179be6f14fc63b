// h2o: heavy hitters, by accumulated attention.

#include "analysis/policy/group_mean.h"
#include "analysis/policy/kept_rows.h"
#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
/// a_i ← a_i + Σ_rows A[:,i], group mean, over all steps since i entered; an evicted entry loses
/// its own (KeyDiff A.1, CAOTE eq. 28).
class H2oScore : public Score {
 public:
  H2oScore(const ModelInfo& model, bool per_query)
      : model_(model),
        per_query_(per_query),
        accumulated_(static_cast<std::size_t>(model.num_kv_heads)) {}

  void observe(const StepView& view, int head) override {
    std::vector<double>& sums = accumulated_[static_cast<std::size_t>(head)];
    sums.resize(view.caches[static_cast<std::size_t>(head)].tokens.size(), 0.0);
    const std::vector<double> step =
        group_mean(model_, head, sums.size(), [&](int query_head) -> const std::vector<float>& {
          return view.attention->column_sums(query_head);
        });
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += step[i];
  }

  std::vector<float> score(const StepView& view, int head) override {
    const std::vector<double>& sums = accumulated_[static_cast<std::size_t>(head)];
    if (!per_query_) return to_float(sums);
    // Entry i is visible to its own query and to every later one.
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    std::vector<float> result(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      result[i] = static_cast<float>(sums[i] / (view.block.end - tokens[i]));
    }
    return result;
  }

  void retain(const StepView&, int head, const HeadDecision& decision) override {
    std::vector<double>& sums = accumulated_[static_cast<std::size_t>(head)];
    // A merged entry holds what its members held; the pivot is one of them.
    for (const Merge& merge : decision.merges) {
      double together = 0.0;
      for (const int member : merge.from) together += sums[static_cast<std::size_t>(member)];
      sums[static_cast<std::size_t>(merge.into)] = together;
    }
    keep_rows(sums, decision.kept);
  }

 private:
  ModelInfo model_;
  bool per_query_;
  std::vector<std::vector<double>> accumulated_;  // [Hk][n]
};
}  // namespace

PolicyEntry h2o() {
  PolicyEntry entry;
  entry.name = "h2o";
  entry.summary = "heavy hitters: the attention an entry has received so far";
  entry.formula = "a_i <- a_i + sum over the step's queries of A[:, i], mean over the group";
  entry.source = "Zhang et al., H2O; KeyDiff A.1; CAOTE eq. 28";
  entry.differences =
      "the original keeps half its budget for recent tokens: h2o+recent(50%); the plain sum "
      "favours "
      "early tokens, kvpress divides by the queries that could see an entry: normalise=visible";
  entry.parameters = {
      {.name = "normalise",
       .type = ParameterType::word,
       .default_value = std::string("none"),
       .words = {"none", "visible"},
       .meaning = "visible: divide by the number of queries that could see the entry"}};
  entry.make_score = [](const SpecPart& part, const LayerContext& context) {
    return std::make_unique<H2oScore>(context.model, part.word("normalise") == "visible");
  };
  return entry;
}

}  // namespace kvloupe::policies
