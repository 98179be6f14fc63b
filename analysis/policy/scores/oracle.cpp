// oracle: what to evict when the next queries are known. A reference, for replay only.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/greedy_removal.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class OracleScore : public Score {
 public:
  OracleScore(const SpecPart& part, const LayerContext& context)
      : model_(context.model), attention_(context.attention), horizon_(part.count("horizon")) {}

  bool needs_values() const override { return true; }
  void set_protection(const Protection& protection) override { protection_ = protection; }
  void prepare(const StepView& /*view*/, int budget) override { budget_ = budget; }

  /// The place in the order of removal: 0 for the first to go. Entries that the budget has room for
  /// are ranked after these, by the error if each went next.
  std::vector<float> score(const StepView& view, int head) override {
    if (view.whole == nullptr) {
      throw WorkError(
          "oracle needs the following queries, which only a replay knows; replay a trace with it");
    }
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::vector<Fate> fates = protection_.fates(head, cache.tokens, budget_);
    std::vector<bool> removable(cache.tokens.size());
    for (std::size_t i = 0; i < fates.size(); ++i) removable[i] = fates[i] == Fate::evicted;
    const std::size_t n = cache.tokens.size();
    const int beside = protection_.count_extra(head, cache.tokens);
    const auto room = std::min(n, static_cast<std::size_t>(budget_ + beside));
    const Eigen::MatrixXd values = cache.values.cast<double>();
    const Block asked = judging_tokens(view);
    std::vector<JudgingQuery> queries = judges(view, head, asked);
    std::vector<float> scores(n, static_cast<float>(n));
    if (!finite(queries, values, scores)) return scores;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const int token = asked.first + static_cast<int>(i) % asked.size();
      hide_before(first_seen(token, model_.reach()), cache.tokens, queries[i]);
    }
    const std::vector<int> order = greedy_removal_order(queries, values, removable, n - room);
    for (std::size_t place = 0; place < order.size(); ++place) {
      scores[static_cast<std::size_t>(order[place])] = static_cast<float>(place);
    }
    return scores;
  }

 private:
  /// Whether all inputs are finite; if not, the scores of the entries concerned become NaN.
  static bool finite(const std::vector<JudgingQuery>& queries, const Eigen::MatrixXd& values,
                     std::vector<float>& scores) {
    bool all = true;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i);
      const bool good = values.row(row).allFinite() &&
                        std::all_of(queries.begin(), queries.end(), [&](const JudgingQuery& query) {
                          return std::isfinite(query.logits[row]) && query.target.allFinite();
                        });
      if (good) continue;
      scores[i] = std::numeric_limits<float>::quiet_NaN();
      all = false;
    }
    return all;
  }

  /// Tokens beyond a query's window are not part of its attention.
  static void hide_before(int first_token, std::span<const std::int32_t> tokens,
                          JudgingQuery& query) {
    for (std::size_t i = 0; i < tokens.size() && tokens[i] < first_token; ++i) {
      query.logits[static_cast<Eigen::Index>(i)] = -std::numeric_limits<double>::infinity();
    }
  }

  /// The tokens whose queries judge: the next; at the end of the sequence the step's own last one.
  Block judging_tokens(const StepView& view) const {
    const auto tokens = static_cast<int>(view.whole->keys.front().rows());
    const int first = view.block.end;
    const int end = std::min(tokens, first + horizon_);
    return {first < end ? first : first - 1, end};
  }

  /// Their queries of the group, by query head.
  std::vector<JudgingQuery> judges(const StepView& view, int head, const Block& asked) const {
    const auto index = static_cast<std::size_t>(head);
    const CacheView& cache = view.caches[index];
    const int first = asked.first;
    const int end = asked.end;
    const int count = asked.size();
    const int group = model_.group_size();
    Eigen::MatrixXd queries(cache.keys.cols(), group * count);  // a column each, by query head
    for (int member = 0; member < group; ++member) {
      const auto query_head = static_cast<std::size_t>(head * group + member);
      const Matrix& all = view.whole->queries[query_head];
      queries.middleCols(member * count, count) =
          all.middleRows(first, count).cast<double>().transpose();
    }
    const Eigen::MatrixXd keys = view.whole->keys[index].topRows(end).cast<double>();
    const Eigen::MatrixXd values = view.whole->values[index].topRows(end).cast<double>();
    Eigen::MatrixXd logits = keys * queries;
    Eigen::MatrixXd present = cache.keys.cast<double>() * queries;
    const auto rule_of = [&](Eigen::Index column) {
      return attention_.of(head * group + static_cast<int>(column) / count);
    };
    for (Eigen::Index column = 0; column < logits.cols(); ++column) {
      to_logits(logits.col(column), rule_of(column));
      to_logits(present.col(column), rule_of(column));
    }
    for (std::size_t i = 0; i < cache.log_sizes.size(); ++i) {
      present.row(static_cast<Eigen::Index>(i)).array() += static_cast<double>(cache.log_sizes[i]);
    }
    const auto query_at = [&](Eigen::Index column) {
      return first + static_cast<int>(column) % count;
    };
    // The true output: everything the query could see.
    Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(logits.rows(), logits.cols());
    for (Eigen::Index column = 0; column < logits.cols(); ++column) {
      const int from = first_seen(query_at(column), model_.reach());
      const Eigen::Index seen = query_at(column) + 1 - from;
      const auto own = logits.col(column).segment(from, seen).array();
      const LogitRule rule = rule_of(column);
      const double shift = std::max(own.maxCoeff(), rule.sink);
      weights.col(column).segment(from, seen) = (own - shift).exp();
      weights.col(column) /= with_sink(weights.col(column).sum(), shift, rule);
    }
    const Eigen::MatrixXd targets = values.transpose() * weights;
    std::vector<JudgingQuery> result(static_cast<std::size_t>(logits.cols()));
    for (Eigen::Index column = 0; column < logits.cols(); ++column) {
      JudgingQuery& query = result[static_cast<std::size_t>(column)];
      query.logits = present.col(column);
      query.target = targets.col(column);
      // Tokens after the step will be in the cache by then.
      const Eigen::Index from =
          std::max(view.block.end, first_seen(query_at(column), model_.reach()));
      const Eigen::Index later = std::max<Eigen::Index>(query_at(column) + 1 - from, 0);
      const LogitRule rule = rule_of(column);
      const Eigen::Index sinks = rule.has_sink() ? 1 : 0;  // a sink logit stays, its value is zero
      if (later + sinks == 0) continue;
      query.kept_logits.resize(later + sinks);
      query.kept_values = Eigen::MatrixXd::Zero(later + sinks, values.cols());
      if (later > 0) {
        query.kept_logits.head(later) = logits.col(column).segment(from, later);
        query.kept_values.topRows(later) = values.middleRows(from, later);
      }
      if (sinks > 0) query.kept_logits[later] = rule.sink;
    }
    return result;
  }

  ModelInfo model_;
  LayerAttention attention_;
  int horizon_;
  Protection protection_;
  int budget_ = 0;
};
}  // namespace

void oracle(PolicyEntry& entry) {
  entry.summary =
      "evicts, one at a time, the entry whose removal changes the next queries' outputs least; it "
      "looks into the future";
  entry.formula =
      "repeat: evict the entry without which sum over the next horizon queries of the group of "
      "||output - true output||^2 is smallest; true: with all entries the query could see; tokens "
      "in between stay; score_i = place in the order of eviction; entries that stay are ordered by "
      "the error if each were evicted next";
  entry.source = "a reference, not a bound: greedy is not optimal; only in a replay";
  entry.needs = "queries, keys and values of the whole sequence, past and future";
  entry.work =
      "horizon n (d + evicted) operations per query head and step: a reference, not a policy to "
      "run";
  entry.differences =
      "near the end of the sequence the remaining queries decide; at the last step, the step's own "
      "last query";
  entry.parameters = {
      count_parameter("horizon", 32.0, 1, 1e6, "how many of the following queries count")};
  entry.traits.needs_future = true;
  entry.builder = ScoreBuilder{made_of<OracleScore>, ScoreScale::per_head};
  entry.notes = always(
      "oracle uses the future: it exists only in a replay, and greedy eviction is not optimal");
}

}  // namespace kvloupe::policies
