#include "app/lesson/value_groups.h"

#include <numeric>

#include "analysis/math/attention.h"
#include "analysis/math/sink.h"

namespace kvloupe::lesson {

namespace {

/// The query heads that the state looks at: one, or its head's group.
std::vector<int> query_heads_of(const LessonState& s) {
  const auto& at = s.workspace.selection;
  if (at.query_head >= 0) return {at.query_head};
  const int group = s.trace->layer_model(at.layer).group_size();
  std::vector<int> heads(static_cast<std::size_t>(group));
  std::iota(heads.begin(), heads.end(), at.head * group);
  return heads;
}

double attention_of(const LessonState& s, const Value& query, const Value& key) {
  const int q = index(query, s.trace->length());
  const int k = index(key, s.trace->length());
  if (q < 0 || k < 0) return kNone;
  const auto& at = s.workspace.selection;
  Progress progress;  // one layer is read at once
  const auto states = s.store->replays().states().get(*s.trace, at.layer, {}, progress);
  const Matrix keys = states->keys.at(static_cast<std::size_t>(at.head)).topRows(q + 1);
  double sum = 0.0;
  const std::vector<int> heads = query_heads_of(s);
  for (const int head : heads) {
    const Matrix one = states->queries.at(static_cast<std::size_t>(head)).row(q);
    if (k <= q) {
      sum += static_cast<double>(attention_rows(view(one), view(keys),
                                                s.trace->attention(at.layer).of(head),
                                                s.trace->window(at.layer))(0, k));
    }
  }
  return sum / static_cast<double>(heads.size());
}

/// ‖o′ − o‖ / ‖o‖ without a token, over all later queries that see it.
double error_without(const LessonState& s, const Value& token) {
  const int t = index(token, s.trace->length());
  if (t < 0 || t + 1 >= s.trace->length()) return kNone;
  const int last =
      first_unseeing(t, s.trace->reach(s.workspace.selection.layer), s.trace->length());
  std::vector<int> queries(static_cast<std::size_t>(last - t - 1));
  if (queries.empty()) return kNone;
  std::iota(queries.begin(), queries.end(), t + 1);
  double sum = 0.0;
  const std::vector<int> heads = query_heads_of(s);
  for (const int head : heads)
    sum += dropped_token_error(*s.trace, s.workspace.selection.layer, head, t, queries);
  return sum / static_cast<double>(heads.size());
}

/// Cosine between a token's key and the mean of all normalised keys of the head, KeyDiff's anchor.
double anchor_cosine(const LessonState& s, const Value& token) {
  const int t = index(token, s.trace->length());
  if (t < 0) return kNone;
  const auto& at = s.workspace.selection;
  Progress progress;  // one layer is read at once
  const auto states = s.store->replays().states().get(*s.trace, at.layer, {}, progress);
  const Eigen::MatrixXd keys =
      states->keys.at(static_cast<std::size_t>(at.head)).cast<double>().rowwise().normalized();
  const Eigen::RowVectorXd anchor = keys.colwise().mean();
  return keys.row(t).dot(anchor) / anchor.norm();
}

}  // namespace

ValueGroup head_values() {
  ValueGroup group{"Attention and keys with the full cache, in the selected head", {}};
  const auto add = [&](ValueInfo info) {
    info.of_selection = true;
    group.values.push_back(std::move(info));
  };
  add({.name = "attention",
       .arguments = {{Argument::number, "query"}, {Argument::number, "key"}},
       .meaning = "attention that one token gives another; the mean over the head's query heads if "
                  "none is selected",
       .compute = computed([](In s, Arguments a) { return attention_of(s, a[0], a[1]); })});
  add({.name = "error_without",
       .arguments = {{Argument::number, "token"}},
       .meaning = "‖o′ − o‖ / ‖o‖ of the head's output when that token alone is evicted, mean over "
                  "the later queries that see it",
       .compute = computed([](In s, Arguments a) { return error_without(s, a[0]); })});
  add({.name = "anchor_cosine",
       .arguments = {{Argument::number, "token"}},
       .meaning =
           "cosine between the token's key and the mean of all keys, each divided by its norm "
           "(KeyDiff's anchor)",
       .compute = computed([](In s, Arguments a) { return anchor_cosine(s, a[0]); })});
  return group;
}

}  // namespace kvloupe::lesson
