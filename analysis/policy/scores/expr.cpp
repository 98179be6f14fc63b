// expr: the user's formula over per-entry variables.

#include <cmath>
#include <optional>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/formula.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/kit/value_out_norms.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
constexpr int kWindow = 32;  // of attn_window, snapkv's default

const std::vector<std::string>& variables() {
  static const std::vector<std::string> names = {
      "attn_last",  "attn_sum",       "attn_window", "cos_anchor", "cos_mean", "key_norm",
      "value_norm", "value_out_norm", "dist_output", "age",        "position", "is_recent",
      "n",          "budget"};
  return names;
}

class ExprScore : public Score {
 public:
  ExprScore(const std::string& text, const LayerContext& context)
      : formula_(text, variables()),
        model_(context.model),
        layer_(context.layer),
        budget_(context.budget),
        received_(context.model) {
    if (formula_.uses("value_out_norm")) {
      norms_.emplace(context, Norm::l1);
    }
  }

  bool needs_values() const override {
    return norms_ || formula_.uses("value_norm") || formula_.uses("dist_output");
  }

  void observe(const StepView& view, int head) override {
    if (formula_.uses("attn_sum")) received_.observe(view, head);
  }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const auto fail = [&](std::size_t row, const std::string& why) {
      throw WorkError("expr: " + why + " at layer " + std::to_string(layer_) + ", head " +
                      std::to_string(head) + ", token " + std::to_string(cache.tokens[row]) +
                      ", step " + std::to_string(view.step) + "; change the formula");
    };
    std::vector<double> values;
    try {
      values = formula_.evaluate(columns(view, head), n);
    } catch (const FormulaValueError& error) {
      fail(error.row, error.what());
    }
    std::vector<float> result(n);
    for (std::size_t row = 0; row < n; ++row) {
      result[row] = static_cast<float>(values[row]);
      if (!std::isfinite(result[row])) fail(row, "the formula is not a finite number");
    }
    return result;
  }

  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    if (norms_) norms_->retain(view, head, decision);
    if (formula_.uses("attn_sum")) received_.retain(head, decision);
  }

 private:
  /// Only the variables that the formula reads.
  Formula::Columns columns(const StepView& view, int head) {
    const auto index = static_cast<std::size_t>(head);
    const CacheView& cache = view.caches[index];
    const std::size_t n = cache.tokens.size();
    Formula::Columns result;
    const auto fill = [&](const char* name, const auto& of_row) {
      if (!formula_.uses(name)) return;
      std::vector<double>& column = result[name];
      column.resize(n);
      for (std::size_t row = 0; row < n; ++row) column[row] = static_cast<double>(of_row(row));
    };
    if (formula_.uses("attn_last") || formula_.uses("dist_output")) {
      const std::vector<double> last = rows_mean(view, head, 1);
      fill("attn_last", [&](std::size_t row) { return last[row]; });
      if (formula_.uses("dist_output")) {
        Eigen::VectorXd output = Eigen::VectorXd::Zero(cache.values.cols());
        for (std::size_t row = 0; row < n; ++row) output += last[row] * row_of(cache.values, row);
        fill("dist_output",
             [&](std::size_t row) { return (output - row_of(cache.values, row)).norm(); });
      }
    }
    if (formula_.uses("attn_window")) result["attn_window"] = rows_mean(view, head, kWindow);
    if (formula_.uses("attn_sum")) result["attn_sum"] = received_.of(head);
    if (formula_.uses("cos_anchor")) result["cos_anchor"] = cosines(cache.keys, true);
    if (formula_.uses("cos_mean")) result["cos_mean"] = cosines(cache.keys, false);
    fill("key_norm", [&](std::size_t row) { return row_of(cache.keys, row).norm(); });
    fill("value_norm", [&](std::size_t row) { return row_of(cache.values, row).norm(); });
    if (norms_) {
      norms_->check("value_out_norm");
      const std::vector<float>& norms = norms_->of(view, head);
      fill("value_out_norm", [&](std::size_t row) { return norms[row]; });
    }
    fill("age", [&](std::size_t row) { return view.block.end - 1 - cache.tokens[row]; });
    fill("position", [&](std::size_t row) { return cache.tokens[row]; });
    fill("is_recent", [&](std::size_t row) { return cache.tokens[row] >= view.block.first; });
    fill("n", [&](std::size_t) { return n; });
    fill("budget", [&](std::size_t) { return budget_; });
    return result;
  }

  static Eigen::VectorXd row_of(const MatrixView& matrix, std::size_t row) {
    return matrix.row(static_cast<Eigen::Index>(row)).cast<double>().transpose();
  }

  /// Mean of the last `count` rows of A, or those there are, and over the group: [n].
  std::vector<double> rows_mean(const StepView& view, int head, int count) const {
    const std::size_t n = view.caches[static_cast<std::size_t>(head)].tokens.size();
    return group_mean(model_, head, n, [&](int query_head) {
      return mean_of_rows(view.attention->last_rows(query_head, count));
    });
  }

  /// Cosine of each key with the mean of all, each normalised first or not; 0 where either is zero.
  static std::vector<double> cosines(const MatrixView& keys, bool normalised) {
    const auto n = static_cast<std::size_t>(keys.rows());
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(keys.cols());
    for (std::size_t row = 0; row < n; ++row) {
      const Eigen::VectorXd key = row_of(keys, row);
      const double length = normalised ? key.norm() : 1.0;
      if (length > 0.0) sum += key / length;
    }
    std::vector<double> result(n);
    for (std::size_t row = 0; row < n; ++row) {
      const Eigen::VectorXd key = row_of(keys, row);
      const double lengths = key.norm() * sum.norm();
      result[row] = lengths > 0.0 ? key.dot(sum) / lengths : 0.0;
    }
    return result;
  }

  Formula formula_;
  ModelInfo model_;
  int layer_;
  int budget_;
  std::optional<ValueOutNorms> norms_;
  AccumulatedAttention received_;  // of attn_sum
};

std::optional<TextProblem> check(std::string_view text) {
  try {
    const Formula formula(text, variables());
    return std::nullopt;
  } catch (const FormulaError& error) {
    return TextProblem{error.position, error.word, error.what()};
  }
}
}  // namespace

void expr(PolicyEntry& entry) {
  entry.summary = "your own formula of each entry's attention, key, value and age";
  entry.formula =
      "score_i = the formula over attn_last, attn_sum, attn_window (means over the group: of the "
      "last query, summed as in h2o, of the last 32 queries), cos_anchor, cos_mean (cosine with "
      "the mean of the normalised keys, of the keys), key_norm, value_norm, value_out_norm (L1, "
      "group mean), dist_output (from the last query's output), age (0 for the newest), position, "
      "is_recent (1 in the step's own block), n, budget; rank(x), zscore(x), minmax(x), smooth(x, "
      "k) run along the cache";
  entry.source = "muParser's operators and functions";
  entry.needs = "what its variables need";
  entry.work = "that of its variables";
  entry.example = "expr(\"rank(smooth(attn_window, 7)) - rank(cos_anchor)\")";
  entry.parameters = {text_parameter("formula", "", "the formula, in quotes", check)};
  entry.parameters.front().required = true;
  entry.traits.reads_output_weights = true;
  entry.builder = ScoreBuilder{[](const SpecPart& part, const LayerContext& context) {
                                 try {
                                   return make_copyable<ExprScore>(part.word("formula"), context);
                                 } catch (const FormulaError& error) {
                                   throw UsageError("expr: '" + error.word + "' at column " +
                                                    std::to_string(error.position + 1) +
                                                    " of the formula: " + error.what());
                                 }
                               },
                               ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
