#include "analysis/replay/evidence.h"

#include <algorithm>
#include <optional>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/given_tokens.h"
#include "analysis/trace/segments.h"

namespace kvloupe {

namespace {
std::vector<int> evidence_tokens(const Trace& trace) {
  if (segment_range(trace.tokens(), kEvidence).empty()) return {};
  return named_tokens(trace, kEvidence);
}

/// Queries that write the answer and come after all of the evidence.
std::vector<int> answer_queries(const Trace& trace, const std::vector<int>& evidence) {
  std::vector<int> queries = asked_queries(trace, Asked::answer, 0);
  std::erase_if(queries, [&](int query) { return evidence.empty() || query <= evidence.back(); });
  return queries;
}

/// The step in which each query comes; ascending, as the queries.
std::vector<int> steps_of(const std::vector<int>& queries, const std::vector<Block>& blocks) {
  std::vector<int> steps;
  for (const int query : queries) {
    const auto block = std::partition_point(blocks.begin(), blocks.end(),
                                            [&](const Block& one) { return one.end <= query; });
    steps.push_back(static_cast<int>(block - blocks.begin()));
  }
  return steps;
}

/// The queries that can see one token of the evidence in one head, and those that find its entry.
/// Both counts start at the first query, because a token that leaves a window or a cache never
/// returns.
struct Found {
  long seen = 0, kept = 0;
};

Found found(const std::vector<int>& queries, const std::vector<int>& steps, const HeadReplay& head,
            int token) {
  const auto seen = std::partition_point(queries.begin(), queries.end(), [&](int query) {
    return first_seen(query, head.reach) <= token;
  });
  const std::int32_t left = head.evicted_at[static_cast<std::size_t>(token)];
  const auto kept = left < 0 ? steps.end() : std::upper_bound(steps.begin(), steps.end(), left);
  return {seen - queries.begin(), std::min(kept - steps.begin(), seen - queries.begin())};
}

/// The mean over the queries of |evidence that it sees| / |tokens that it sees|.
double even_attention(const std::vector<int>& queries, const std::vector<int>& tokens,
                      const Reach& reach) {
  double sum = 0.0;
  for (const int query : queries) {
    const int first = first_seen(query, reach);
    const auto seen = tokens.end() - std::lower_bound(tokens.begin(), tokens.end(), first);
    sum += static_cast<double>(seen) / (query + 1 - first);
  }
  return sum / static_cast<double>(queries.size());
}

/// The pairs that a head, a layer or the model has lost, token by token: a pair is lost where no
/// head of them holds it.
class Pairs {
 public:
  explicit Pairs(std::size_t tokens) : most_(tokens) {}
  void add(std::size_t token, const Found& one) {
    most_[token].seen = std::max(most_[token].seen, one.seen);
    most_[token].kept = std::max(most_[token].kept, one.kept);
  }
  double lost_share() const {
    long seen = 0, kept = 0;
    for (const Found& one : most_) {
      seen += one.seen;
      kept += one.kept;
    }
    return seen > 0 ? static_cast<double>(seen - kept) / static_cast<double>(seen)
                    : EvidenceHead::kUnknown;
  }

 private:
  std::vector<Found> most_;
};

std::vector<int> replayed_layers(const Replay& replay) {
  std::vector<int> layers;
  for (const HeadReplay& head : replay.heads) {
    if (layers.empty() || layers.back() != head.layer) layers.push_back(head.layer);
  }
  return layers;
}

/// The replay with a uniform budget; none where the policy's is uniform.
std::optional<Replay> uniform_replay(const Trace& trace, const Replay& own,
                                     const AskOptions& options, Progress& progress) {
  const PolicySpec policy = parse_policy(own.policy);
  if (!has_part(policy, PartKind::allocation)) return std::nullopt;
  ReplayRequest request{.policy = without_allocation(policy),
                        .budget = own.budget,
                        .block = own.block,
                        .compression = own.compression,
                        .layers = replayed_layers(own),
                        .metrics = false,
                        .threads = options.threads,
                        .background = options.background,
                        .states = options.states};
  return replay(trace, request, progress);
}
}  // namespace

std::string missing_evidence(const Trace& trace) {
  const std::vector<int> tokens = evidence_tokens(trace);
  if (tokens.empty()) {
    return std::string("the trace has no segment \"") + kEvidence +
           "\", which marks the evidence: write the line @@" + kEvidence +
           " before the evidence in the prompt file, @@context after it, and capture again";
  }
  if (answer_queries(trace, tokens).empty()) {
    return "the trace has no answer after the evidence: capture with --generate, or end the prompt "
           "file with the answer under the line @@answer";
  }
  return "";
}

PolicySpec without_allocation(PolicySpec policy) {
  std::erase_if(policy.parts, [](const SpecPart& part) {
    return find_policy(part.name)->kind() == PartKind::allocation;
  });
  return parse_policy(policy.text());
}

EvidenceReplay evidence_of(const Trace& trace, const Replay& replay, const AskOptions& options,
                           Progress& progress) {
  EvidenceReplay result;
  result.heads.resize(replay.heads.size());
  result.layer_evicted.assign(static_cast<std::size_t>(trace.model().num_layers),
                              EvidenceHead::kUnknown);
  result.tokens = evidence_tokens(trace);
  result.queries = answer_queries(trace, result.tokens);
  if (result.queries.empty()) return result;
  const std::vector<int> steps = steps_of(result.queries, replay.blocks);
  Progress part(progress, 0);
  ReadsRequest wanted{
      .tokens = result.tokens, .background = options.background, .states = options.states};
  const std::vector<TokenReads> reads = token_reads(trace, wanted, part);
  const std::optional<Replay> uniform = uniform_replay(trace, replay, options, part);

  Pairs of_model(result.tokens.size());
  std::size_t whole_layers = 0, attending = 0;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    if (!trace.attends(layer)) continue;
    ++attending;
    Pairs of_layer(result.tokens.size());
    int heads = 0;
    for (std::size_t place = 0; place < replay.heads.size(); ++place) {
      const HeadReplay& own = replay.heads[place];
      if (own.layer != layer) continue;
      ++heads;
      EvidenceHead& head = result.heads[place];
      const auto read = std::find_if(reads.begin(), reads.end(), [&](const TokenReads& one) {
        return one.layer == layer && one.head == own.head;
      });
      head.attention = read->answer;
      head.even = even_attention(result.queries, result.tokens, own.reach);
      const HeadReplay* same = uniform ? uniform->find(layer, own.head) : nullptr;
      long seen = 0, kept = 0, cut = 0;
      for (std::size_t i = 0; i < result.tokens.size(); ++i) {
        const Found one = found(result.queries, steps, own, result.tokens[i]);
        of_layer.add(i, one);
        of_model.add(i, one);
        seen += one.seen;
        kept += one.kept;
        if (same == nullptr) continue;
        const Found at_uniform = found(result.queries, steps, *same, result.tokens[i]);
        cut += std::max(at_uniform.kept - one.kept, 0L);
      }
      if (seen == 0) continue;
      const auto share = [&](long pairs) {
        return static_cast<double>(pairs) / static_cast<double>(seen);
      };
      head.kept = share(kept);
      head.unseen = head.reads() ? 0.0 : share(seen - kept);
      head.cut = head.reads() ? share(cut) : 0.0;
      head.misranked = head.reads() ? share(seen - kept - cut) : 0.0;
    }
    if (heads != trace.layer_model(layer).num_kv_heads) continue;
    ++whole_layers;
    result.layer_evicted[static_cast<std::size_t>(layer)] = of_layer.lost_share();
  }
  if (whole_layers == attending) result.evicted = of_model.lost_share();
  return result;
}

void set_evidence(const EvidenceReplay& evidence, Replay& replay) {
  for (std::size_t i = 0; i < replay.heads.size(); ++i) {
    HeadReplay& head = replay.heads[i];
    const EvidenceHead& own = evidence.heads[i];
    set_asked("evidence_attention", own.attention, head);
    set_asked("evidence_kept", own.kept, head);
    set_asked("evidence_unseen", own.unseen, head);
    set_asked("evidence_misranked", own.misranked, head);
    set_asked("evidence_cut", own.cut, head);
    set_asked("layer_eviction_ratio", evidence.layer_evicted[static_cast<std::size_t>(head.layer)],
              head);
    set_asked("global_eviction_ratio", evidence.evicted, head);
  }
}

}  // namespace kvloupe
