// The replays of replay_bench's large head as one would write them with libtorch at hand: the
// yardstick for the engine. One thread, the same shapes; random states, for only time is measured.
#include <cblas.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>

#include "tests/bench/each_policy.h"

namespace kvloupe {
namespace {

constexpr int kTokens = 8192, kBlock = 128, kBudget = 2048, kGroup = 4, kHeadDim = 128;
constexpr int kWindow = 32, kKernel = 7;

/// Softmax rows of the block's last `rows` queries over the cache: [G,rows,n].
torch::Tensor attention(const torch::Tensor& queries, const torch::Tensor& keys, int rows) {
  const auto asked = queries.slice(1, queries.size(1) - rows);
  torch::Tensor logits = torch::matmul(asked, keys.t()) * (1.0 / std::sqrt(double{kHeadDim}));
  if (rows > 1) {
    const auto later = torch::ones({rows, rows}, torch::kBool).triu(1);
    logits.slice(2, keys.size(0) - rows)
        .masked_fill_(later, -std::numeric_limits<float>::infinity());
  }
  return torch::softmax(logits, 2);
}

/// The state of a replay for one head: rows of the kept entries, and sums over the seen ones.
struct Head {
  torch::Tensor keys = torch::empty({0, kHeadDim});
  torch::Tensor plain_keys = torch::empty({0, kHeadDim});  // before RoPE
  torch::Tensor values = torch::empty({0, kHeadDim});
  torch::Tensor received = torch::empty({0});
  torch::Tensor query_sum = torch::zeros({kGroup, kHeadDim});  // before RoPE
  torch::Tensor query_products = torch::zeros({kGroup, kHeadDim, kHeadDim});
  torch::Tensor query_lengths = torch::zeros({kGroup, kHeadDim / 2});
  long seen = 0;
};

/// [d/2]: the angle by which RoPE turns a pair per position.
torch::Tensor frequencies() {
  return torch::pow(500000.0, torch::arange(0, kHeadDim, 2) * (-1.0 / kHeadDim));
}

/// The mean rotation over the next 512 positions: [d,d].
torch::Tensor future_rotation(long first) {
  const auto angles =
      (torch::arange(first, first + 512).unsqueeze(1) * frequencies()).to(torch::kF32);
  const auto cosine = angles.cos().mean(0), sine = angles.sin().mean(0);
  constexpr int half = kHeadDim / 2;
  const auto rotation = torch::zeros({kHeadDim, kHeadDim});
  rotation.slice(0, 0, half).slice(1, 0, half).diagonal().copy_(cosine);
  rotation.slice(0, half).slice(1, half).diagonal().copy_(cosine);
  rotation.slice(0, 0, half).slice(1, half).diagonal().copy_(-sine);
  rotation.slice(0, half).slice(1, 0, half).diagonal().copy_(sine);
  return rotation;
}

torch::Tensor smooth(const torch::Tensor& scores, int kernel, bool largest) {
  const auto row = scores.view({1, 1, -1});
  return (largest ? torch::max_pool1d(row, kernel, 1, kernel / 2)
                  : torch::avg_pool1d(row, kernel, 1, kernel / 2))
      .view({-1});
}

torch::Tensor protect_window(torch::Tensor scores) {
  scores.slice(0, scores.size(0) - kWindow).fill_(std::numeric_limits<float>::infinity());
  return scores;
}

torch::Tensor expected(const Head& head) {
  const auto rotation = future_rotation(head.seen);
  const auto mean = head.query_sum / head.seen;
  const auto turned = torch::matmul(mean, rotation.t());  // [G,d]
  const auto covariance = head.query_products / head.seen - mean.unsqueeze(2) * mean.unsqueeze(1);
  const auto spread = torch::matmul(torch::matmul(rotation, covariance), rotation.t());
  auto logits = torch::matmul(turned, head.keys.t()) / std::sqrt(double{kHeadDim});
  logits += (torch::matmul(head.keys, spread) * head.keys).sum(2) / (2.0 * kHeadDim);
  return torch::softmax(logits, 1).mean(0) * head.values.norm(2, 1);
}

torch::Tensor qfilter(const Head& head) {
  const auto filters = std::get<1>(torch::linalg_eigh(head.query_products)).select(2, kHeadDim - 1);
  return torch::matmul(head.keys, filters.mean(0));
}

torch::Tensor lag_ranks(const torch::Tensor& rows) {
  const auto parts = rows.slice(0, 0, rows.size(0) / kBlock * kBlock).view({-1, kBlock, kHeadDim});
  const auto next = parts.slice(0, 1);
  const auto least = next.amin(1, true), most = next.amax(1, true);
  const auto places = (parts.slice(0, 0, parts.size(0) - 1) - least) / (most - least);
  return torch::softmax(places.std(2), 1);
}

torch::Tensor lagkv(const Head& head) {
  const auto found = (lag_ranks(head.keys) + lag_ranks(head.values)) / 2;
  const auto ranks = found.argsort(1, false).argsort(1, false).to(torch::kF32) / kBlock;
  auto scores = torch::ones({head.keys.size(0)});
  scores.slice(0, 0, ranks.numel()) = ranks.reshape({-1});
  return scores;
}

torch::Tensor leverage(const Head& head) {
  torch::manual_seed(7);
  const auto projection = torch::randn({kHeadDim, 48}) / std::sqrt(48.0);
  const auto x = torch::matmul(head.plain_keys - head.plain_keys.mean(0, true), projection);
  const auto gram = torch::matmul(x.t(), x) + 5e-3 * torch::eye(48);
  return (torch::matmul(x, torch::linalg_inv(gram)) * x).sum(1);
}

torch::Tensor standard(const torch::Tensor& scores) {
  return (scores - scores.mean()) / scores.std();
}

torch::Tensor cur(const Head& head) {
  const auto shares = [](const torch::Tensor& rows) {
    const auto squares = rows.square().sum(1);
    const auto windows = squares.view({-1, 16});
    return (windows / windows.sum(1, true)).view({-1});
  };
  const auto scores = shares(head.keys) * shares(head.values);
  return scores / scores.sum();
}

torch::Tensor capkv(const Head& head) {
  const auto anchor = torch::matmul(head.query_sum / head.seen, future_rotation(head.seen).t());
  torch::Tensor sum = torch::zeros({head.keys.size(0)});
  for (int g = 0; g < kGroup; ++g) {
    const auto cosine = torch::cosine_similarity(head.keys, anchor[g].unsqueeze(0));
    const auto weights = (5.0 * (cosine - cosine.max())).exp();
    const auto matrix =
        torch::eye(kHeadDim) +
        torch::matmul((head.values * (weights + 1e-6).unsqueeze(1)).t(), head.values);
    sum += weights * (torch::linalg_solve(matrix, head.values.t()).t() * head.values).sum(1);
  }
  return sum / kGroup;
}

torch::Tensor dropkv(const Head& head, const torch::Tensor& queries) {
  const auto p = attention(queries, head.keys, kWindow);  // [G,W,n]
  const auto outputs = torch::matmul(p, head.values);     // [G,W,d]
  const auto w = (p / (1.0 - p + 1e-6)).square();
  const auto scores = head.values.square().sum(1) * w.sum(1) -
                      2.0 * (torch::matmul(w.transpose(1, 2), outputs) * head.values).sum(2) +
                      (w * outputs.square().sum(2, true)).sum(1);
  return protect_window(smooth(scores.mean(0), kKernel, false));
}

torch::Tensor rkv(const Head& head, const torch::Tensor& queries) {
  const auto n = head.keys.size(0);
  const auto asked = queries.slice(1, queries.size(1) - 8);
  const auto logits = torch::matmul(asked, head.keys.t()) / std::sqrt(double{kHeadDim});
  const auto weights = torch::softmax(logits.amax(0), 1).mean(0);
  const auto unit = torch::nn::functional::normalize(head.keys);
  auto cosine = torch::matmul(unit, unit.t());
  cosine.fill_diagonal_(0.0);
  // In each row the last similar key is left out.
  const auto places = torch::arange(n).unsqueeze(0);
  const auto last = torch::where(cosine > 0.5, places, torch::zeros_like(places)).amax(1, true);
  cosine.scatter_(1, last, 0.0);
  return 0.1 * smooth(weights, kKernel, true) - 0.9 * torch::softmax(cosine.mean(0), 0);
}

torch::Tensor defensive(const Head& head, const torch::Tensor& queries) {
  const auto rows = attention(queries, head.keys, kWindow);
  const auto n = rows.size(2);
  auto pooled = torch::avg_pool1d(rows.reshape({-1, 1, n}), 5, 1, 2).view({kGroup, kWindow, n});
  pooled *= rows.sum(2, true) / pooled.sum(2, true);
  const auto worst = pooled.amax(0).amax(0);
  return protect_window(torch::max(worst, worst.mean()) * head.values.abs().sum(1));
}

torch::Tensor cakescore(const Head& head, const torch::Tensor& queries) {
  const auto rows = attention(queries, head.keys, kWindow);
  return protect_window(smooth((rows.mean(1) + 200.0 * rows.var(1)).mean(0), 5, false));
}

torch::Tensor lavascore(const Head& head, const torch::Tensor& queries) {
  const auto n = head.keys.size(0);
  const auto mean = attention(queries, head.keys, kWindow).mean(1);  // [G,n]
  const auto pooled =
      torch::max_pool1d(mean.view({kGroup, 1, n}), kKernel, 1, kKernel / 2).view({kGroup, n});
  const auto longest = head.values.slice(0, 0, n - kWindow).abs().sum(1).amax();
  return protect_window(pooled.amax(0) * longest);
}

/// The largest attention that a second reading of `keys` pays to each of them: of `part` tokens at
/// a time after a request of 16, each pass beside `sinks` first keys and its own part, or all keys
/// where `all`. `rows` queries at a time, as much as fits the processor's cache. [G,T]
torch::Tensor probe_scores(const torch::Tensor& keys, const torch::Tensor& queries, int part,
                           int sinks, bool all, int rows) {
  auto most = torch::zeros({kGroup, kTokens});
  for (int first = 0; first < kTokens; first += part) {
    const auto request = torch::arange(16);
    const auto asked =
        torch::cat({queries.index_select(1, request), queries.slice(1, first, first + part)}, 1);
    const auto own =
        torch::cat({keys.index_select(0, request), keys.slice(0, first, first + part)});
    const auto context =
        all ? keys : torch::cat({keys.slice(0, 0, sinks), keys.slice(0, first, first + part)});
    const int before = all ? first : sinks;
    for (int from = 0; from < part + 16; from += rows) {
      const int end = std::min(from + rows, part + 16);
      const auto seen = torch::cat({context, own.slice(0, 0, end)});
      auto logits =
          torch::matmul(asked.slice(1, from, end), seen.t()) / std::sqrt(double{kHeadDim});
      const auto later = torch::ones({end - from, end - from}, torch::kBool).triu(1);
      logits.slice(2, seen.size(0) - (end - from))
          .masked_fill_(later, -std::numeric_limits<float>::infinity());
      const auto found = torch::softmax(logits, 2).slice(2, before, before + part).amax(1);
      auto known = most.slice(1, first, first + part);
      known.copy_(torch::max(known, found));
    }
  }
  return most;
}

torch::Tensor triattention(const Head& head) {
  constexpr int half = kHeadDim / 2;
  const auto frequency = frequencies().to(torch::kF32);
  const auto mean = head.query_sum / head.seen;  // [G,d]
  const auto mean_length = head.query_lengths / head.seen;
  const auto x = head.keys.slice(1, 0, half), y = head.keys.slice(1, half);
  const auto key_length = (x.square() + y.square()).sqrt(), key_angle = torch::atan2(y, x);
  torch::Tensor best;
  for (int g = 0; g < kGroup; ++g) {
    const auto a = mean[g].slice(0, 0, half), b = mean[g].slice(0, half);
    const auto length = (a.square() + b.square()).sqrt();
    const auto phase =
        torch::atan2(b, a) + static_cast<double>(head.seen) * frequency - key_angle;  // [n,d/2]
    auto scores = torch::zeros({head.keys.size(0)});
    for (int i = 0; i < 17; ++i) {
      scores += (length * key_length * (phase + std::ldexp(1.0, i) * frequency).cos()).sum(1) / 17;
    }
    scores += torch::matmul(key_length, mean_length[g] - length);
    scores = standard(scores);
    best = g == 0 ? scores : torch::max(best, scores);
  }
  return best;
}

using Rule = std::function<torch::Tensor(const Head&, const torch::Tensor& queries)>;

/// Scores of the step; of other policies, what the head has received.
const std::map<std::string, Rule>& rules() {
  const auto of_states = [](torch::Tensor (*score)(const Head&)) -> Rule {
    return [score](const Head& head, const torch::Tensor&) { return score(head); };
  };
  static const std::map<std::string, Rule> all = {
      {"keydiff", of_states([](const Head& head) {
         const auto anchor = torch::nn::functional::normalize(head.keys).mean(0, true);
         return -torch::cosine_similarity(head.keys, anchor);
       })},
      {"tova",
       [](const Head& head, const torch::Tensor& queries) {
         return attention(queries, head.keys, 1).mean(0).squeeze(0);
       }},
      {"snapkv",
       [](const Head& head, const torch::Tensor& queries) {
         return protect_window(
             smooth(attention(queries, head.keys, kWindow).mean(1).mean(0), kKernel, false));
       }},
      {"expected", of_states(expected)},
      {"qfilter", of_states(qfilter)},
      {"lagkv", of_states(lagkv)},
      {"leverage", of_states(leverage)},
      {"compactor", of_states([](const Head& head) {
         return standard(leverage(head)) + standard(head.received);
       })},
      {"cur", of_states(cur)},
      {"capkv", of_states(capkv)},
      {"dropkv", dropkv},
      {"rkv", rkv},
      {"defensive", defensive},
      {"cakescore", cakescore},
      {"lavascore", lavascore},
      {"vatp",
       of_states([](const Head& head) { return head.received * head.values.abs().sum(1); })},
      {"triattention", of_states(triattention)}};
  return all;
}

void replay_large_head_torch(benchmark::State& state, const std::string& policy) {
  torch::NoGradGuard no_grad;
  torch::set_num_threads(1);
  openblas_set_num_threads(1);  // libtorch does not tell it
  torch::manual_seed(1);
  const auto all_keys = torch::randn({kTokens, kHeadDim});
  const auto all_values = torch::randn({kTokens, kHeadDim});
  const auto all_queries = torch::randn({kGroup, kTokens, kHeadDim});
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), policy) != names.end();
  };
  const bool sums_attention = is_one_of({"h2o", "vatp"});
  const bool sums_chunks = is_one_of({"noncausal", "compactor"});
  const bool sums_queries = is_one_of({"expected", "qfilter", "capkv", "triattention"});
  const bool reads_values =
      is_one_of({"expected", "lagkv", "cur", "capkv", "dropkv", "defensive", "vatp", "lavascore"});
  const bool reads_probe = is_one_of({"kvzip", "kvcompose"});
  const bool reads_plain_keys = is_one_of({"leverage", "compactor"});
  for (auto _ : state) {
    Head head;
    torch::Tensor of_probe;
    if (policy == "kvzip") {
      of_probe = probe_scores(all_keys, all_queries, 2048, 4, false, 64).amax(0);
      of_probe.slice(0, 0, 4).fill_(1.0);
    } else if (policy == "kvcompose") {
      // With one head in the layer, the mean over the heads doubles the score.
      of_probe = 2.0 * probe_scores(all_keys, all_queries, kTokens, 0, true, 64).mean(0);
    }
    for (int first = 0; first < kTokens; first += kBlock) {
      const auto own_keys = all_keys.slice(0, first, first + kBlock);
      head.keys = torch::cat({head.keys, own_keys});
      // A library sees states before RoPE as they are: no rotation is undone here.
      if (reads_plain_keys) head.plain_keys = torch::cat({head.plain_keys, own_keys});
      if (reads_values) {
        head.values = torch::cat({head.values, all_values.slice(0, first, first + kBlock)});
      }
      const auto queries = all_queries.slice(1, first, first + kBlock);
      head.seen = first + kBlock;
      const auto n = head.keys.size(0);
      if (sums_queries) {
        head.query_sum += queries.sum(1);
        head.query_products += torch::matmul(queries.transpose(1, 2), queries);
      }
      if (policy == "triattention") {
        const auto x = queries.slice(2, 0, kHeadDim / 2), y = queries.slice(2, kHeadDim / 2);
        head.query_lengths += (x.square() + y.square()).sqrt().sum(1);
      }
      if (sums_attention) {
        head.received = torch::cat({head.received, torch::zeros({kBlock})});
        head.received += attention(queries, head.keys, kBlock).sum(1).mean(0);
      }
      if (sums_chunks) {
        const auto logits = torch::matmul(queries, own_keys.t()) / std::sqrt(double{kHeadDim});
        head.received = torch::cat({head.received, torch::softmax(logits, 2).sum(1).mean(0)});
      }
      if (reads_probe) {
        head.received = torch::cat({head.received, of_probe.slice(0, first, first + kBlock)});
      }
      if (n <= kBudget) continue;
      const auto rule = rules().find(policy);
      const torch::Tensor scores =
          rule == rules().end() ? head.received : rule->second(head, queries);
      const auto kept = std::get<0>(std::get<1>(torch::topk(scores, kBudget)).sort());
      head.keys = head.keys.index_select(0, kept);
      if (reads_plain_keys) head.plain_keys = head.plain_keys.index_select(0, kept);
      if (reads_values) head.values = head.values.index_select(0, kept);
      if (head.received.numel() > 0) head.received = head.received.index_select(0, kept);
    }
    benchmark::DoNotOptimize(head.keys.data_ptr<float>());
  }
}
const bool registered = for_each_policy(
    "replay_large_head_torch",
    {"keydiff",   "tova",     "snapkv",       "h2o",       "expected",  "qfilter", "lagkv",
     "noncausal", "leverage", "compactor",    "cur",       "capkv",     "dropkv",  "rkv",
     "defensive", "vatp",     "triattention", "cakescore", "lavascore", "kvzip",   "kvcompose"},
    replay_large_head_torch);

}  // namespace
}  // namespace kvloupe
