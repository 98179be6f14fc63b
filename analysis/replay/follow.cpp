#include "analysis/replay/follow.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/math/attention.h"
#include "analysis/policy/kit/token_rule.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/record/head_states.h"

namespace kvloupe {

namespace {
std::vector<int> segment_tokens(const TokenTable& table, std::string_view name) {
  std::vector<int> tokens;
  for (std::size_t i = 0; i < table.segment.size(); ++i) {
    if (table.segment_names[table.segment[i]] == name) tokens.push_back(static_cast<int>(i));
  }
  return tokens;
}
}  // namespace

std::vector<int> named_tokens(const Trace& trace, std::string_view text) {
  return named_tokens(trace.tokens(), trace.length(), text);
}

std::vector<int> named_tokens(const TokenTable& table, int length, std::string_view text) {
  if (std::vector<int> tokens = segment_tokens(table, text); !tokens.empty()) return tokens;
  if (text == "auto") {
    const std::vector<int> needle = segment_tokens(table, "needle");
    return needle.empty() ? std::vector<int>{0} : needle;
  }
  std::vector<TokenRange> ranges;
  if (read_tokens(text, ranges)) {
    std::string names;
    for (const std::string& name : table.segment_names) {
      names += (names.empty() ? "" : ", ") + name;
    }
    throw UsageError(
        "tokens '" + in_one_line(text) + "': write tokens such as 120-131,140" +
        (names.empty() ? "; the trace has no segments" : ", or a segment of the trace: " + names));
  }
  count_tokens(ranges, length, "tokens");
  std::set<int> tokens;
  for (const TokenRange& range : ranges) {
    for (int token = range.first; token < std::min(range.end, length); ++token) {
      tokens.insert(token);
    }
  }
  return {tokens.begin(), tokens.end()};
}

namespace {
constexpr Eigen::Index kTile = 256;  // queries of one product

void check_tokens(const std::vector<int>& tokens, int length) {
  if (tokens.empty()) throw UsageError("tokens: name at least one to follow");
  for (const int token : {tokens.front(), tokens.back()}) {
    if (token >= 0 && token < length) continue;
    throw UsageError("token " + std::to_string(token) + ": the trace has tokens 0 to " +
                     std::to_string(length - 1));
  }
}

/// Σ and count of the queries of one kind.
struct Sum {
  double total = 0.0;
  long count = 0;
  void add(double value) {
    total += value;
    ++count;
  }
  double mean() const {
    return count > 0 ? total / static_cast<double>(count) : TokenReads::kUnknown;
  }
};

struct Sums {
  Sum question, answer, later, effective;
};

/// Facts of the sequence, the same for all heads.
struct Reading {
  const Trace& trace;
  const ReadsRequest& request;
  RoleTokens roles;
  std::vector<char> answers = {};  // [T] whether the query writes the answer
};

/// Adds the attention of one query head's later queries to the followed tokens.
void add_reads(const Reading& what, int layer, int query_head, const MatrixView& queries,
               const Matrix& followed, const std::vector<float>& logsumexp, Sums& sums) {
  const LogitRule rule = what.trace.attention(layer).of(query_head);
  const std::vector<int>& tokens = what.request.tokens;
  const Reach reach = what.trace.reach(layer);
  const int first = tokens.back() + 1;
  Matrix products;
  for (Eigen::Index begin = first; begin < queries.rows(); begin += kTile) {
    const Eigen::Index count = std::min(kTile, queries.rows() - begin);
    products.noalias() = queries.middleRows(begin, count) * followed.transpose();
    for (Eigen::Index row = 0; row < count; ++row) {
      const int query = static_cast<int>(begin + row);
      const double sum_of_row = logsumexp[static_cast<std::size_t>(query)];
      double attention = 0.0;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] < first_seen(query, reach)) continue;
        const auto product = static_cast<double>(products(row, static_cast<Eigen::Index>(i)));
        attention += std::exp(rule.logit(product) - sum_of_row);
      }
      attention = std::min(attention, 1.0);  // the log-sum-exp is rounded on its own way
      sums.later.add(attention);
      const bool asks = what.roles.question.contains(query);
      if (asks) sums.question.add(attention);
      if (what.answers[static_cast<std::size_t>(query)] != 0) sums.answer.add(attention);
    }
  }
}

TokenReads reads_of_head(const Reading& what, const LayerStates& states, int layer, int head,
                         Progress& progress) {
  const ModelInfo& model = what.trace.layer_model(layer);
  const Matrix& keys = states.keys[static_cast<std::size_t>(head)];
  Matrix followed(static_cast<Eigen::Index>(what.request.tokens.size()), keys.cols());
  for (Eigen::Index i = 0; i < followed.rows(); ++i) {
    followed.row(i) = keys.row(what.request.tokens[static_cast<std::size_t>(i)]);
  }
  TokenReads reads;
  reads.layer = layer;
  reads.head = head;
  Sums sums;
  for (int i = 0; i < model.group_size(); ++i) {
    progress.check();
    const auto query_head = static_cast<std::size_t>(head * model.group_size() + i);
    const MatrixView queries = view(states.queries[query_head]);
    add_reads(what, layer, static_cast<int>(query_head), queries, followed,
              states.logsumexp[query_head], sums);
    if (what.request.effective_tokens) {
      const std::vector<double> entropy = attention_entropy(
          queries, view(keys), what.trace.attention(layer).of(static_cast<int>(query_head)),
          what.trace.reach(layer), progress);
      for (const double one : entropy) sums.effective.add(std::exp(one));
    }
    if (!what.request.roles) continue;
    reads.roles.push_back(head_roles(queries, view(keys), states.logsumexp[query_head],
                                     what.trace.attention(layer).of(static_cast<int>(query_head)),
                                     what.trace.reach(layer), what.roles, progress));
  }
  reads.question = sums.question.mean();
  reads.answer = sums.answer.mean();
  reads.later = sums.later.mean();
  reads.effective_tokens = sums.effective.mean();
  reads.read = sums.answer.count > 0     ? reads.answer
               : sums.question.count > 0 ? reads.question
                                         : reads.later;
  return reads;
}
}  // namespace

std::vector<TokenReads> token_reads(
    const Trace& trace, const ReadsRequest& request, Progress& progress,
    const std::function<void(const std::vector<TokenReads>&)>& on_layer) {
  check_tokens(request.tokens, trace.length());
  const ModelInfo& model = trace.model();
  Reading what{trace, request, role_tokens(trace.tokens(), trace.run())};
  what.answers.assign(static_cast<std::size_t>(trace.length()), 0);
  for (const int query : asked_queries(trace, Asked::answer, 0)) {
    what.answers[static_cast<std::size_t>(query)] = 1;
  }
  StateParts parts = StateParts::keys_only();
  parts.queries = parts.logsumexp = true;
  std::vector<std::vector<TokenReads>> layers(static_cast<std::size_t>(model.num_layers));
  progress.set_total(model.num_layers);
  progress.count("layers", model.num_layers);
  std::mutex reporting;
  for_layers(layers.size(), {0, request.background, -1},
             [&](std::size_t index, const HeadLoop& for_heads) {
               progress.check();
               const int layer = static_cast<int>(index);
               if (!trace.attends(layer)) return progress.advance();
               const int count = trace.layer_model(layer).num_kv_heads;
               const HeadStates states(request.states, trace, layer, parts, kLargeLayer, progress);
               std::vector<TokenReads>& heads = layers[index];
               heads.resize(static_cast<std::size_t>(count));
               for_heads(count, [&](int head) {
                 Progress part(progress, 0);
                 heads[static_cast<std::size_t>(head)] =
                     reads_of_head(what, *states.of(head), layer, head, part);
               });
               progress.advance();
               if (!on_layer) return;
               const std::lock_guard lock(reporting);
               on_layer(heads);
             });
  std::vector<TokenReads> all;
  for (std::vector<TokenReads>& heads : layers) {
    for (TokenReads& head : heads) all.push_back(std::move(head));
  }
  return all;
}

TokenFate token_fate(const Replay& replay, const HeadReplay& head, const std::vector<int>& tokens) {
  TokenFate fate;
  const std::size_t steps = replay.blocks.size();
  fate.share.assign(steps, TokenReads::kUnknown);
  std::vector<int> lost(steps, 0);  // how many at each step
  for (const int token : tokens) {
    const int step = head.evicted_at[static_cast<std::size_t>(token)];
    if (step < 0 || replay.left_unseen(head, token)) continue;
    ++lost[static_cast<std::size_t>(step)];
    if (fate.first_loss < 0 || step < fate.first_loss) fate.first_loss = step;
    fate.last_loss = std::max(fate.last_loss, step);
  }
  std::size_t seen = 0;
  int gone = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    while (seen < tokens.size() && tokens[seen] < replay.blocks[step].end) ++seen;
    gone += lost[step];
    if (seen > 0) fate.share[step] = 1.0 - static_cast<double>(gone) / static_cast<double>(seen);
  }
  fate.kept = steps > 0 ? fate.share.back() : TokenReads::kUnknown;
  return fate;
}

const char* blame_name(const std::vector<FollowedHead>& heads) {
  const auto known = [&](double RestoredHead::*number) {
    return std::any_of(heads.begin(), heads.end(), [&](const FollowedHead& head) {
      return std::isfinite(head.restored.*number);
    });
  };
  if (known(&RestoredHead::effect)) return "logit";
  return known(&RestoredHead::change) ? "change" : "loss";
}

std::vector<FollowedHead> follow(const Replay& replay, const std::vector<TokenReads>& reads,
                                 const std::vector<int>& tokens,
                                 const std::vector<RestoredHead>& restored) {
  std::vector<FollowedHead> heads;
  for (const HeadReplay& head : replay.heads) {
    const auto found = std::find_if(reads.begin(), reads.end(), [&](const TokenReads& one) {
      return one.layer == head.layer && one.head == head.head;
    });
    if (found == reads.end()) throw std::invalid_argument("follow: reads of a head are missing");
    FollowedHead one{*found, token_fate(replay, head, tokens), {}, 0.0};
    for (const RestoredHead& back : restored) {
      if (back.layer == head.layer && back.head == head.head) one.restored = back;
    }
    for (const TokenLoss& loss : head.losses) {
      if (std::binary_search(tokens.begin(), tokens.end(), loss.token)) one.losses.push_back(loss);
    }
    one.loss = one.reads.read * (1.0 - one.fate.kept);
    heads.push_back(std::move(one));
  }
  const std::string_view by = blame_name(heads);
  for (FollowedHead& head : heads) {
    head.blame = by == "logit"    ? head.restored.effect
                 : by == "change" ? head.restored.change
                                  : head.loss;
  }
  std::stable_sort(heads.begin(), heads.end(), [](const FollowedHead& a, const FollowedHead& b) {
    const bool known = !std::isnan(a.blame), other = !std::isnan(b.blame);
    return known != other ? known : known && a.blame > b.blame;
  });
  return heads;
}

}  // namespace kvloupe
