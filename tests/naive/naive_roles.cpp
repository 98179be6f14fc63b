#include "tests/naive/naive_roles.h"

#include <cmath>

namespace kvloupe::naive {

namespace {
double mean(const std::vector<double>& values) {
  if (values.empty()) return HeadRoles::kUnknown;
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

bool sees(int query, int token, int window) {
  return token >= 0 && token <= query && (window == 0 || token > query - window);
}
}  // namespace

std::vector<std::vector<double>> full_attention(const Matrix& queries, const Matrix& keys,
                                                double scale, int window) {
  const int count = static_cast<int>(queries.rows());
  std::vector<std::vector<double>> result;
  for (int q = 0; q < count; ++q) {
    std::vector<double> row(static_cast<std::size_t>(count), 0.0);
    double sum = 0.0;
    for (int i = 0; i < count; ++i) {
      if (!sees(q, i, window)) continue;
      double dot = 0.0;
      for (Eigen::Index c = 0; c < keys.cols(); ++c) {
        dot += static_cast<double>(queries(q, c)) * static_cast<double>(keys(i, c));
      }
      sum += row[i] = std::exp(scale * dot);
    }
    for (double& a : row) a /= sum;
    result.push_back(row);
  }
  return result;
}

HeadRoles roles(const std::vector<std::vector<double>>& attention, int window,
                const RoleTokens& tokens) {
  const int count = static_cast<int>(attention.size());
  std::vector<double> sink, previous, recent, induction, retrieval, question;
  for (int q = 1; q < count; ++q) {
    if (sees(q, 0, window)) sink.push_back(attention[q][0]);
    if (sees(q, q - 1, window)) previous.push_back(attention[q][q - 1]);
    if (q >= 16) {
      double sum = 0.0;
      for (int i = q - 15; i <= q; ++i) sum += attention[q][i];
      recent.push_back(sum);
    }
    double sum = 0.0;
    bool repeated = false;
    for (int i = 0; i + 2 <= q; ++i) {
      if (tokens.ids[i] != tokens.ids[q] || !sees(q, i + 1, window)) continue;
      repeated = true;
      sum += attention[q][i + 1];
    }
    if (repeated) induction.push_back(sum);
  }
  for (int t = tokens.prompt_length; t < count; ++t) {
    const int q = t - 1;
    const TokenRange source =
        tokens.needle.empty() ? TokenRange{0, tokens.prompt_length} : tokens.needle;
    bool copied = false, found = false;
    int strongest = -1;
    for (int i = 0; i <= q; ++i) {
      if (!sees(q, i, window)) continue;
      if (strongest < 0 || attention[q][i] > attention[q][strongest]) strongest = i;
    }
    for (int i = source.first; i < source.end && i < q; ++i) {
      if (tokens.ids[i] != tokens.ids[t]) continue;
      copied = true;
      found |= i == strongest;
    }
    if (copied) retrieval.push_back(found ? 1.0 : 0.0);
  }
  for (int q = tokens.question.end; q < count && !tokens.question.empty(); ++q) {
    if (!sees(q, tokens.question.end - 1, window)) continue;
    double sum = 0.0;
    for (int i = tokens.question.first; i < tokens.question.end; ++i) sum += attention[q][i];
    question.push_back(sum);
  }
  return {mean(sink),      mean(previous),  mean(recent),
          mean(induction), mean(retrieval), mean(question)};
}

double mean_read(const std::vector<std::vector<double>>& attention, const std::vector<int>& queries,
                 const std::vector<int>& tokens) {
  std::vector<double> reads;
  for (const int q : queries) {
    double sum = 0.0;
    for (const int token : tokens) sum += attention[q][token];
    reads.push_back(sum);
  }
  return mean(reads);
}

}  // namespace kvloupe::naive
