#include "analysis/math/sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "analysis/base/core/parallel_loop.h"
#include "analysis/math/attention.h"

namespace kvloupe {

float sink_strength(const Trace& trace, int layer, int query_head, int token, Progress& progress) {
  if (token < 0 || token >= trace.length()) {
    throw UsageError(fmt::format("token {}: {} has tokens 0 to {}", token, trace.path().string(),
                                 trace.length() - 1));
  }
  const int later = first_unseeing(token, trace.reach(layer), trace.length()) - token - 1;
  if (later == 0) return 0.0F;
  const std::vector<float> logsumexp = attention_logsumexp(trace, layer, query_head, progress);
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, trace.layer_model(layer).head_of(query_head));
  Eigen::VectorXf logits = queries.middleRows(token + 1, later) * keys.row(token).transpose();
  to_logits(logits, trace.attention(layer).of(query_head));
  double sum = 0.0;
  for (int i = 0; i < later; ++i) {
    // The log-sum-exp is rounded on its own way: never more than all of the attention.
    sum += std::min(1.0, std::exp(static_cast<double>(logits[i]) -
                                  logsumexp[static_cast<std::size_t>(token + 1 + i)]));
  }
  return static_cast<float>(sum / later);
}

float sink_strength(const Trace& trace, int layer, int query_head, int token,
                    std::span<const int> queries, Progress& progress) {
  const Reach reach = trace.reach(layer);
  std::vector<int> rows;
  for (const int query : queries) {
    if (query < 0 || query >= trace.length() || token < 0 || token >= trace.length()) {
      throw UsageError(fmt::format("token {}, query {}: {} has tokens 0 to {}", token, query,
                                   trace.path().string(), trace.length() - 1));
    }
    if (query > token && token >= first_seen(query, reach)) rows.push_back(query);
  }
  if (rows.empty()) return 0.0F;
  constexpr std::size_t kTogether = 64;  // rows of one product
  const Matrix all = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, trace.layer_model(layer).head_of(query_head));
  const LogitRule rule = trace.attention(layer).of(query_head);
  double sum = 0.0;
  for (std::size_t from = 0; from < rows.size(); from += kTogether) {
    progress.check();
    const std::vector<int> some(
        rows.begin() + static_cast<std::ptrdiff_t>(from),
        rows.begin() + static_cast<std::ptrdiff_t>(std::min(from + kTogether, rows.size())));
    Matrix logits = all(some, Eigen::all) * keys.transpose();
    to_logits(logits, rule);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const int first = first_seen(some[i], reach);
      const Eigen::VectorXd row = logits.row(static_cast<Eigen::Index>(i))
                                      .segment(first, some[i] + 1 - first)
                                      .cast<double>();
      const auto shift =
          static_cast<double>(softmax_shift(static_cast<float>(row.maxCoeff()), rule));
      const Eigen::ArrayXd weights = (row.array() - shift).exp();
      sum += weights[token - first] / with_sink(weights.sum(), shift, rule);
    }
  }
  return static_cast<float>(sum / static_cast<double>(rows.size()));
}

namespace {
/// A number of each query head: [L, most query heads], NaN where a layer has fewer.
Matrix of_query_heads(const Trace& trace, Progress& progress,
                      const std::function<float(int layer, int query_head)>& number) {
  const int heads = trace.most_query_heads();
  Matrix numbers(trace.model().num_layers, heads);
  progress.set_total(numbers.size());
  parallel_loop(0, static_cast<int>(numbers.size()), [&](int i) {
    progress.check();
    const int layer = i / heads, query_head = i % heads;
    numbers(layer, query_head) = query_head < trace.layer_model(layer).num_heads
                                     ? number(layer, query_head)
                                     : std::numeric_limits<float>::quiet_NaN();
    progress.advance();
  });
  return numbers;
}
}  // namespace

Matrix sink_strengths(const Trace& trace, int token, Progress& progress) {
  return of_query_heads(trace, progress, [&](int layer, int query_head) {
    return sink_strength(trace, layer, query_head, token, progress);
  });
}

namespace {
/// One query's error, see dropped_token_error(): logits [n] and values [n,d] of the entries it
/// sees, which of them is the token, and the sink logit. With o′ the output of the others, of their
/// own softmax, o′ − o = a·(o′ − v): nothing is divided by 1 − a, which rounds to 0 at a strong
/// sink.
template <typename Values>
double error_without(const Eigen::VectorXd& logits, const Values& values, int token,
                     const LogitRule& rule) {
  if (logits.size() == 1 && !rule.has_sink()) return std::numeric_limits<double>::infinity();
  const auto softmax_of = [&](Eigen::VectorXd weights) {
    const double shift = std::max(weights.maxCoeff(), rule.sink);
    weights = (weights.array() - shift).exp().matrix();
    return Eigen::VectorXd(weights / with_sink(weights.sum(), shift, rule));
  };
  const Eigen::VectorXd attention = softmax_of(logits);
  Eigen::VectorXd others = logits;
  others[token] = -std::numeric_limits<double>::infinity();
  const Eigen::RowVectorXd output = attention.transpose() * values;
  const Eigen::RowVectorXd without = softmax_of(others).transpose() * values;
  const double change = attention[token] * (without - values.row(token)).norm();
  return change == 0.0 ? 0.0 : change / output.norm();
}
}  // namespace

Matrix mean_of_query_heads(const Matrix& values, int heads) {
  if (heads < 1 || values.cols() % heads != 0) {
    throw UsageError(
        fmt::format("{} query heads cannot be shared by {} heads", values.cols(), heads));
  }
  const Eigen::Index group = values.cols() / heads;
  Matrix means(values.rows(), heads);
  for (int head = 0; head < heads; ++head)
    means.col(head) = values.middleCols(head * group, group).rowwise().mean();
  return means;
}

HeadIndex strongest_sink(const Matrix& strengths, int heads) {
  const Matrix known = strengths.array().isNaN().select(-1.0F, strengths);
  const Matrix means = mean_of_query_heads(known, heads);
  if (means.size() == 0) throw UsageError("no strengths to compare");
  Eigen::Index layer = 0, head = 0;
  const Matrix not_wholly = (means.array() <= kWholeSink).select(means, -1.0F);
  if (not_wholly.maxCoeff(&layer, &head) < 0.0F) means.maxCoeff(&layer, &head);
  return {static_cast<int>(layer), static_cast<int>(head)};
}

double dropped_token_error(const Trace& trace, int layer, int query_head, int token,
                           std::span<const int> queries) {
  std::vector<int> asked(queries.begin(), queries.end());
  asked.push_back(token);
  for (const int one : asked) {
    if (one >= 0 && one < trace.length()) continue;
    throw UsageError(fmt::format("token {}: {} has tokens 0 to {}", one, trace.path().string(),
                                 trace.length() - 1));
  }
  if (queries.empty()) throw UsageError("no query to average over");
  const Matrix all = trace.query(layer, query_head);
  const int head = trace.layer_model(layer).head_of(query_head);
  const Eigen::MatrixXd keys = trace.key(layer, head).cast<double>();
  const Eigen::MatrixXd values = trace.value(layer, head).cast<double>();
  const LogitRule rule = trace.attention(layer).of(query_head);
  double sum = 0.0;
  for (const int query : queries) {
    const int first = first_seen(query, trace.reach(layer));
    if (token > query || token < first) continue;
    const int seen = query + 1 - first;
    Eigen::VectorXd logits =
        keys.middleRows(first, seen) * all.row(query).transpose().cast<double>();
    to_logits(logits, rule);
    sum += error_without(logits, values.middleRows(first, seen), token - first, rule);
  }
  return sum / static_cast<double>(queries.size());
}

Matrix dropped_token_errors(const Trace& trace, int token, std::span<const int> queries,
                            Progress& progress) {
  return of_query_heads(trace, progress, [&](int layer, int query_head) {
    return static_cast<float>(dropped_token_error(trace, layer, query_head, token, queries));
  });
}

MeanAttention mean_attention(const Trace& trace, std::span<const int> layers, int n,
                             Progress& progress) {
  if (n < 1 || n > trace.length()) {
    throw UsageError(
        fmt::format("{} tokens: {} has 1 to {}", n, trace.path().string(), trace.length()));
  }
  if (layers.empty()) throw UsageError("no layer to average over");
  Eigen::MatrixXd logits = Eigen::MatrixXd::Zero(n, n);
  Eigen::MatrixXd probabilities = Eigen::MatrixXd::Zero(n, n);
  long count = 0;  // of query heads
  for (const int layer : layers) count += trace.layer_model(layer).num_heads;
  progress.set_total(count);
  // Keys that some layer sees are shown; a layer that does not see one gives it no attention.
  std::vector<int> shown(static_cast<std::size_t>(n));
  std::iota(shown.begin(), shown.end(), 0);
  for (const int layer : layers) {
    const Reach own = trace.reach(layer);
    for (int q = 0; q < n; ++q) {
      int& first = shown[static_cast<std::size_t>(q)];
      first = std::min(first, first_seen(q, own));
    }
    for (int query_head = 0; query_head < trace.layer_model(layer).num_heads; ++query_head) {
      const Matrix queries = trace.query(layer, query_head).topRows(n);
      const Matrix keys = trace.key(layer, trace.layer_model(layer).head_of(query_head)).topRows(n);
      const LogitRule rule = trace.attention(layer).of(query_head);
      Eigen::MatrixXd head = queries.cast<double>() * keys.cast<double>().transpose();
      to_logits(head, rule);
      logits += head;
      for (int q = 0; q < n; ++q) {
        const int first = first_seen(q, own);
        const int seen = q + 1 - first;
        const Eigen::ArrayXd row = head.row(q).segment(first, seen).transpose().array();
        const double shift = std::max(row.maxCoeff(), rule.sink);
        const Eigen::ArrayXd weights = (row - shift).exp();
        probabilities.row(q).segment(first, seen) +=
            (weights / with_sink(weights.sum(), shift, rule)).matrix().transpose();
      }
      progress.advance();
    }
  }
  const auto all = static_cast<double>(count);
  MeanAttention mean{(logits / all).cast<float>(), (probabilities / all).cast<float>()};
  for (int q = 0; q < n; ++q) {
    const int first = shown[static_cast<std::size_t>(q)];
    for (int k = 0; k < n; ++k) {
      if (k >= first && k <= q) continue;
      mean.logits(q, k) = mean.probabilities(q, k) = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return mean;
}

}  // namespace kvloupe
