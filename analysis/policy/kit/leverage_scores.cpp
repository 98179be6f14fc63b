#include "analysis/policy/kit/leverage_scores.h"

#include <Eigen/Cholesky>
#include <cmath>
#include <numbers>
#include <span>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"

namespace kvloupe {

double sketch_entry(std::uint64_t seed, int layer, int head, int row, int column) {
  const std::int32_t place = 2 * (row * 65536 + column);
  const double a = 1.0 - static_cast<double>(token_hash(seed, layer, head, place));  // above 0
  const double b = static_cast<double>(token_hash(seed, layer, head, place + 1));
  return std::sqrt(-2.0 * std::log(a)) * std::cos(2.0 * std::numbers::pi * b);
}

LeverageKeys::LeverageKeys(const ModelInfo& model, const LeverageRule& rule, int layer, int head)
    : turned_back_(Rope(model)), ridge_(rule.ridge) {
  const int d = model.head_dim;
  if (rule.sketch > 0 && rule.sketch < d) {
    projection_.resize(d, rule.sketch);
    for (int row = 0; row < d; ++row) {
      for (int column = 0; column < rule.sketch; ++column) {
        projection_(row, column) =
            sketch_entry(rule.seed, layer, head, row, column) / std::sqrt(rule.sketch);
      }
    }
  }
  rows_.resize(0, projection_.size() > 0 ? rule.sketch : d);
}

void LeverageKeys::observe(const CacheView& cache) {
  const Eigen::Index n = cache.keys.rows();
  known_.resize(static_cast<std::size_t>(n), 0);
  std::vector<Eigen::Index> added;
  for (Eigen::Index row = 0; row < n; ++row) {
    if (known_[static_cast<std::size_t>(row)] == 0) added.push_back(row);
  }
  Rows fresh(std::ssize(added), cache.keys.cols());
  TurnedBack::Cursor cursor;
  for (Eigen::Index i = 0; i < fresh.rows(); ++i) {
    const Eigen::Index row = added[static_cast<std::size_t>(i)];
    fresh.row(i) = cache.keys.row(row).cast<double>();
    turned_back_.turn(
        std::span<double>(fresh.row(i).data(), static_cast<std::size_t>(fresh.cols())),
        cache.tokens[static_cast<std::size_t>(row)], cursor);
  }
  if (projection_.size() > 0) fresh = (fresh * projection_).eval();
  if (rows_.rows() != n) rows_.conservativeResize(n, Eigen::NoChange);
  for (Eigen::Index i = 0; i < fresh.rows(); ++i) {
    const Eigen::Index row = added[static_cast<std::size_t>(i)];
    rows_.row(row) = fresh.row(i);
    known_[static_cast<std::size_t>(row)] = 1;
  }
}

std::vector<double> LeverageKeys::scores(Eigen::Index first, Eigen::Index count) const {
  if (count == 0) return {};
  const auto own = rows_.middleRows(first, count);
  const Rows x = own.rowwise() - own.colwise().mean();
  Eigen::MatrixXd gram = x.transpose() * x;
  gram.diagonal().array() += ridge_;
  // L⁻¹xᵀ has the square x G⁻¹ xᵀ for its length, which cannot be negative.
  const Eigen::LLT<Eigen::MatrixXd> factor(gram);
  const Eigen::MatrixXd solved = factor.matrixL().solve(x.transpose());
  const Eigen::VectorXd scores = solved.colwise().squaredNorm().transpose();
  return {scores.data(), scores.data() + scores.size()};
}

std::vector<float> LeverageKeys::score(const CacheView& cache) const {
  const std::vector<double> all = scores(0, std::ssize(cache.tokens));
  return {all.begin(), all.end()};
}

void LeverageKeys::retain(const CacheView& /*cache*/, const HeadDecision& decision) {
  for (const Merge& merge : decision.merges) {
    if (!merge.key.empty()) known_[static_cast<std::size_t>(merge.into)] = 0;
  }
  if (decision.kept.size() == known_.size()) return;
  for (std::size_t j = 0; j < decision.kept.size(); ++j) {
    if (static_cast<std::int32_t>(j) != decision.kept[j]) {
      rows_.row(static_cast<Eigen::Index>(j)) = rows_.row(decision.kept[j]);
    }
  }
  keep_rows(known_, decision.kept);
}

std::vector<LeverageKeys> leverage_of_heads(const SpecPart& part, const LayerContext& context) {
  const LeverageRule rule{part.count("sketch"), part.number("ridge"),
                          static_cast<std::uint64_t>(part.number("seed"))};
  std::vector<LeverageKeys> heads;
  for (int head = 0; head < context.model.num_kv_heads; ++head) {
    heads.emplace_back(context.model, rule, context.layer, head);
  }
  return heads;
}

}  // namespace kvloupe
