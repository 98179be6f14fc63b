// Scores of one formula each.

#include "tests/naive/scores/scores.h"

#include <cstdint>

#include "tests/naive/decompositions.h"
#include "tests/naive/naive_matching.h"

namespace kvloupe::naive::scores {

static Scores matching_score(const NaiveReplay& r, int head, const Block&, int budget) {
  const Matching of = r.matching(head);
  std::vector<double> own;
  if (r.part().word("keys") == "omp") {
    own = pursued(of.E, of.weights, r.part(), budget);
  } else {
    const Eigen::VectorXd sums = of.E.rowwise().sum() + of.sinks;
    for (Eigen::Index j = 0; j < of.E.cols(); ++j) {
      const Eigen::ArrayXd a = of.E.col(j).cwiseQuotient(sums);
      const std::string& by = r.part().word("by");
      own.push_back(by == "max"    ? a.maxCoeff()
                    : by == "mean" ? a.mean()
                                   : std::sqrt(a.square().mean()));
    }
  }
  Scores scores;
  for (std::size_t j = 0; j < own.size(); ++j) scores[r.cache(head)[j]] = own[j];
  return scores;
}

NaiveScore attentionmatching() { return {.name = "attentionmatching", .score = matching_score}; }

static Scores h2o_score(const NaiveReplay& r, int head, const Block& block, int) {
  Scores scores;
  for (const int token : r.cache(head)) {
    scores[token] = r.received(head).at(token);
    if (r.part().word("normalise") == "visible") scores[token] /= block.end - token;
  }
  return scores;
}

NaiveScore h2o() { return {.name = "h2o", .score = h2o_score, .accumulates = true}; }

static Scores keynorm_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = -r.key_norm(head, token);
  return scores;
}

NaiveScore keynorm() { return {.name = "keynorm", .score = keynorm_score}; }

static Scores leverage_score(const NaiveReplay& r, int head, const Block&, int) {
  const auto own = leverage_of(r, head, r.cache(head));
  Scores scores;
  for (std::size_t i = 0; i < own.size(); ++i) scores[r.cache(head)[i]] = own[i];
  return scores;
}

NaiveScore leverage() { return {.name = "leverage", .score = leverage_score}; }

static Scores longflow_score(const NaiveReplay& r, int head, const Block& block, int) {
  Scores scores;
  const int group = r.model().group_size();
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (const auto& [token, weight] : r.step_attention(query_head, block.end - 1)) {
      scores[token] += weight * r.value_norm(head, token, 1) / group;
    }
  }
  return scores;
}

NaiveScore longflow() { return {.name = "longflow", .score = longflow_score}; }

static Scores noncausal_score(const NaiveReplay& r, int head, const Block&, int) {
  const Scores received = chunk_attention(r, head, 0, 0);
  std::vector<double> own;
  for (const int token : r.cache(head)) {
    own.push_back(received.at(token) * r.value_norm(head, token, 2));
  }
  own = pool(own, 3, false, static_cast<int>(own.size()));
  Scores scores;
  for (std::size_t i = 0; i < own.size(); ++i) scores[r.cache(head)[i]] = own[i];
  return scores;
}

NaiveScore noncausal() { return {.name = "noncausal", .score = noncausal_score}; }

static Scores qfilter_score(const NaiveReplay& r, int head, const Block& block, int) {
  const int d = r.model().head_dim, group = r.model().group_size();
  Eigen::VectorXd filter = Eigen::VectorXd::Zero(d);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    Eigen::MatrixXd queries(block.end, d);
    for (int t = 0; t < block.end; ++t) {
      const auto q = query_vector(r, query_head, t, true);
      for (int c = 0; c < d; ++c) queries(t, c) = q[c];
    }
    Eigen::VectorXd direction = first_direction(queries);
    if ((queries * direction).mean() < 0.0) direction = -direction;
    filter += direction / group;
  }
  Scores scores;
  for (const int token : r.cache(head)) {
    for (int c = 0; c < d; ++c) scores[token] += filter[c] * r.key(head, token, c);
  }
  return scores;
}

NaiveScore qfilter() { return {.name = "qfilter", .score = qfilter_score}; }

static Scores raas_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = r.stamp(head, token);
  return scores;
}

NaiveScore raas() { return {.name = "raas", .score = raas_score}; }

static Scores random_score(const NaiveReplay& r, int head, const Block&, int) {
  const auto seed = static_cast<std::uint64_t>(r.part().number("seed"));
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = r.hash(seed, head, token);
  return scores;
}

NaiveScore random() { return {.name = "random", .score = random_score}; }

static Scores sink_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = token;
  return scores;
}

NaiveScore sink() { return {.name = "sink", .score = sink_score, .first_tokens = "n"}; }

static Scores tova_score(const NaiveReplay& r, int head, const Block& block, int) {
  const bool whole_layer = r.part().word("aggregate") == "layer";
  const int group = r.model().group_size();
  const int first = whole_layer ? 0 : head * group;
  const int end = whole_layer ? r.model().num_heads : (head + 1) * group;
  Scores scores;
  for (int query_head = first; query_head < end; ++query_head) {
    const Scores row = r.step_attention(query_head, block.end - 1);
    for (const auto& [token, weight] : row) scores[token] += weight / (end - first);
  }
  return scores;
}

NaiveScore tova() { return {.name = "tova", .score = tova_score, .last_entries = "protect_last"}; }

static Scores valuerange_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = value_range(r, head, token);
  return scores;
}

NaiveScore valuerange() {
  return {.name = "valuerange", .score = valuerange_score, .first_tokens = "sinks"};
}

static Scores vatp_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) {
    scores[token] = r.received(head).at(token) * r.value_norm(head, token, 1);
  }
  return scores;
}

NaiveScore vatp() {
  return {.name = "vatp", .score = vatp_score, .first_tokens = "sinks", .accumulates = true};
}

}  // namespace kvloupe::naive::scores
