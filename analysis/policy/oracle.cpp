// oracle: what to evict when the next queries are known. A reference, for replay only.

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/error.h"
#include "analysis/policy/greedy_removal.h"
#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
class OracleScore : public Score {
 public:
  OracleScore(const LayerContext& context, int horizon)
      : model_(context.model), scale_(context.attention_scale), horizon_(horizon) {}

  bool needs_values() const override { return true; }
  void set_protection(const Protection& protection, int budget) override {
    protection_ = protection;
    budget_ = budget;
  }

  /// The place in the order of removal: 0 for the first to go.
  std::vector<float> score(const StepView& view, int head) override {
    if (view.whole == nullptr) {
      throw WorkError(
          "oracle needs the queries that follow, which only a replay knows; replay a trace with "
          "it");
    }
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::vector<Fate> fates = protection_.fates(cache.tokens, budget_);
    std::vector<bool> removable(cache.tokens.size());
    for (std::size_t i = 0; i < fates.size(); ++i) removable[i] = fates[i] == Fate::evicted;
    const Eigen::MatrixXd values = cache.values.cast<double>();
    const std::vector<int> order = greedy_removal_order(judges(view, head), values, removable);
    std::vector<float> scores(cache.tokens.size(), static_cast<float>(cache.tokens.size()));
    for (std::size_t place = 0; place < order.size(); ++place) {
      scores[static_cast<std::size_t>(order[place])] = static_cast<float>(place);
    }
    return scores;
  }

 private:
  /// The next queries of the group; at the end of the sequence the step's own last ones.
  std::vector<JudgingQuery> judges(const StepView& view, int head) const {
    const WholeSequence& whole = *view.whole;
    const auto index = static_cast<std::size_t>(head);
    const auto tokens = static_cast<int>(whole.keys[index].rows());
    int first = view.block.end;
    const int end = std::min(tokens, first + horizon_);
    if (first >= end) first = view.block.end - 1;
    std::vector<JudgingQuery> result;
    const int group = model_.group_size();
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      const Matrix& queries = whole.queries[static_cast<std::size_t>(query_head)];
      for (int token = first; token < std::max(end, first + 1); ++token) {
        result.push_back(judge(view, head, token, queries.row(token).cast<double>().transpose()));
      }
    }
    return result;
  }

  JudgingQuery judge(const StepView& view, int head, int token,
                     const Eigen::VectorXd& query) const {
    const auto index = static_cast<std::size_t>(head);
    const Matrix& keys = view.whole->keys[index];
    const Matrix& values = view.whole->values[index];
    const CacheView& cache = view.caches[index];
    JudgingQuery result;
    result.logits = scale_ * (cache.keys.cast<double>() * query);
    for (std::size_t i = 0; i < cache.log_sizes.size(); ++i) {
      result.logits[static_cast<Eigen::Index>(i)] += static_cast<double>(cache.log_sizes[i]);
    }
    // The true output: everything the query could see.
    const Eigen::VectorXd logits = scale_ * (keys.topRows(token + 1).cast<double>() * query);
    const Eigen::VectorXd weights = (logits.array() - logits.maxCoeff()).exp();
    result.target =
        values.topRows(token + 1).cast<double>().transpose() * (weights / weights.sum());
    // What comes after the step will be in the cache by then.
    const Eigen::Index later = token + 1 - view.block.end;
    if (later > 0) {
      result.kept_logits = logits.tail(later);
      result.kept_values = values.middleRows(view.block.end, later).cast<double>();
    }
    return result;
  }

  ModelInfo model_;
  double scale_;
  int horizon_;
  Protection protection_;
  int budget_ = 0;
};
}  // namespace

PolicyEntry oracle() {
  PolicyEntry entry;
  entry.name = "oracle";
  entry.summary = "evicts one by one what the next queries miss least; it knows them";
  entry.formula =
      "repeat: evict the entry without which sum over the next horizon queries of the group of "
      "||output - true output||^2 is least; true: everything they could see; the tokens between "
      "stay; score_i = place in the order of eviction";
  entry.source = "a reference, not a bound: greedy is not optimal; replay only";
  entry.differences =
      "where the sequence ends the queries there are decide, at its last step that step's own last "
      "query";
  entry.parameters = {{.name = "horizon",
                       .type = ParameterType::count,
                       .default_value = 32.0,
                       .minimum = 1,
                       .maximum = 1e6,
                       .words = {},
                       .meaning = "how many of the following queries judge"}};
  entry.scale = ScoreScale::per_head;
  entry.make_score = [](const SpecPart& part, const LayerContext& context) {
    return std::make_unique<OracleScore>(context, part.count("horizon"));
  };
  entry.notes = [](const SpecPart&, const ModelInfo&, int) {
    return std::vector<std::string>{
        "oracle uses the future: it exists in replay only, and greedy eviction is not the best "
        "there is"};
  };
  return entry;
}

}  // namespace kvloupe::policies
