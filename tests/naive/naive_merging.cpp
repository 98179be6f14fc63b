// Merging, in double precision and plain loops: KVMerger §4 and CaM.

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

namespace {
/// The number as a cache of float32 holds it.
double stored(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Turns the pairs of a key by `positions` · θ^(−2j/d).
std::vector<double> rotate(const ModelInfo& model, std::vector<double> key, int positions) {
  const int d = model.rotary_dim > 0 ? model.rotary_dim : model.head_dim;
  const int first = model.rotary_start;
  for (int j = 0; j < d / 2; ++j) {
    const double angle = positions * std::pow(model.rope_theta, -2.0 * j / d);
    double& x = key[first + (model.rope_pairing == RopePairing::half ? j : 2 * j)];
    double& y = key[first + (model.rope_pairing == RopePairing::half ? j + d / 2 : 2 * j + 1)];
    const double turned_x = x * std::cos(angle) - y * std::sin(angle);
    const double turned_y = x * std::sin(angle) + y * std::cos(angle);
    x = turned_x;
    y = turned_y;
  }
  return key;
}
}  // namespace

std::vector<std::vector<int>> NaiveReplay::merging_sets(int head,
                                                        const std::vector<int>& candidates,
                                                        double epsilon) const {
  const bool chain = policy_.find("kvmerger")->word("link") == "chain";
  std::vector<std::vector<int>> sets;
  int i = static_cast<int>(candidates.size()) - 1;
  while (i >= 0) {
    std::vector<int> set = {candidates[i]};  // opens a set
    int j = i - 1;
    for (; j >= 0; --j) {
      const int with = chain ? candidates[j + 1] : candidates[i];
      const double lengths = key_norm(head, with) * key_norm(head, candidates[j]);
      const double cosine = lengths > 0.0 ? product(head, with, candidates[j]) / lengths : 0.0;
      if (!(cosine > epsilon)) break;
      set.insert(set.begin(), candidates[j]);
    }
    sets.push_back(set);
    i = j;
  }
  return sets;
}

std::vector<NaiveMerge> NaiveReplay::kvmerger(int head, const std::set<int>& kept_apart,
                                              int quota) const {
  const SpecPart& part = *policy_.find("kvmerger");
  const std::vector<int>& cache = caches_[head];
  const int n = static_cast<int>(cache.size());
  std::vector<int> old(cache.begin(), cache.end() - std::min(n, part.share("recent", n)));
  std::sort(old.begin(), old.end(), [&](int a, int b) {
    return std::pair(received_[head].at(a), a) > std::pair(received_[head].at(b), b);
  });
  const int heavy = std::min<int>(part.share("heavy", n), static_cast<int>(old.size()));
  if (heavy > 0 && !light_.empty()) {
    const double border = received_[head].at(old[heavy - 1]);
    const auto first = std::find_if(old.begin(), old.end(), [&](int token) {
      return received_[head].at(token) <= border + light_difference_;
    });
    const auto end = std::find_if(first, old.end(), [&](int token) {
      return received_[head].at(token) < border - light_difference_;
    });
    std::stable_partition(first, end, [&](int token) { return light_.count(token) == 0; });
  }
  std::vector<int> candidates;
  for (const int token : std::set<int>(old.begin() + heavy, old.end())) {
    if (kept_apart.count(token) == 0) candidates.push_back(token);
  }
  double epsilon = -2.0;
  if (const double* fixed = std::get_if<double>(&part.argument("threshold"))) {
    epsilon = *fixed;
  } else {
    // The largest cosine of two candidates, or 1, at or a little below which the budget is met:
    // halved until nothing lies between.
    double too_many = 1.0;
    for (int round = 0; round < 44; ++round) {
      const double middle = (epsilon + too_many) / 2.0;
      const int remain = n - static_cast<int>(candidates.size()) +
                         static_cast<int>(merging_sets(head, candidates, middle).size());
      (remain <= quota ? epsilon : too_many) = middle;
    }
  }
  std::vector<NaiveMerge> merges;
  for (const std::vector<int>& set : merging_sets(head, candidates, epsilon)) {
    if (set.size() > 1) merges.push_back(merge(head, set));
  }
  return merges;
}

NaiveMerge NaiveReplay::merge(int head, const std::vector<int>& set) const {
  const SpecPart& part = *policy_.find("kvmerger");
  const double size = static_cast<double>(set.size());
  const bool before_rope = part.word("rotate") == "pre";
  int pivot = set.front();
  for (const int token : set) {
    if (part.word("pivot") == "last") pivot = token;
    if (part.word("pivot") == "attention" &&
        received_[head].at(token) >= received_[head].at(pivot)) {
      pivot = token;
    }
    if (part.word("pivot") == "random" && hash(0, head, token) >= hash(0, head, pivot)) {
      pivot = token;
    }
  }
  const auto key_of = [&](int token) {
    std::vector<double> result;
    for (int c = 0; c < model_.head_dim; ++c) result.push_back(key(head, token, c));
    return before_rope ? rotate(model_, result, -token) : result;
  };
  std::vector<double> distances;
  const std::vector<double> pivot_key = key_of(pivot);
  for (const int token : set) {
    const std::vector<double> own = key_of(token);
    double square = 0.0;
    for (int c = 0; c < model_.head_dim; ++c) {
      square += (pivot_key[c] - own[c]) * (pivot_key[c] - own[c]);
    }
    distances.push_back(std::sqrt(square));
  }
  const auto kernel = [&](double sigma) {
    std::vector<double> g;
    for (const double x : distances) {
      g.push_back(x == 0.0 ? 1.0 : std::exp(-x * x / (2.0 * sigma * sigma)));
    }
    return g;
  };
  const auto sum = [](const std::vector<double>& values) {
    double total = 0.0;
    for (const double value : values) total += value;
    return total;
  };
  double sigma = 0.0;
  const SpecValue& rule = part.argument("sigma");
  if (const double* fixed = std::get_if<double>(&rule)) {
    sigma = *fixed;
  } else if (rule == SpecValue(std::string("dist"))) {
    sigma = sum(distances) / (std::sqrt(2.0) * size);
  } else {
    sigma = 1.0 / std::sqrt(2.0);
    for (double before = 1.0; before - sigma > 1e-12 * sigma;) {
      before = sigma;
      sigma = sum(kernel(sigma)) / (std::sqrt(2.0) * size);
    }
  }
  NaiveMerge result;
  result.into = pivot;
  result.from = set;
  const std::vector<double> g = kernel(sigma);
  for (const double x : g) {
    result.weights.push_back(part.word("weights") == "mean" ? 1.0 / size : x / sum(g));
  }
  const bool log_size = part.count("log_size") == 1;
  const double scale = !log_size && part.word("value_scale") == "paper" ? size : 1.0;
  double tokens = 0.0;
  result.key.assign(static_cast<std::size_t>(model_.head_dim), 0.0);
  result.value.assign(static_cast<std::size_t>(model_.value_width()), 0.0);
  for (std::size_t i = 0; i < set.size(); ++i) {
    const std::vector<double> own = key_of(set[i]);
    const Merged* entry = merged(head, set[i]);
    tokens += entry != nullptr ? std::exp(entry->log_size) : 1.0;
    for (int c = 0; c < model_.head_dim; ++c) result.key[c] += result.weights[i] * own[c];
    for (int c = 0; c < model_.value_width(); ++c) {
      result.value[c] += scale * result.weights[i] * value(head, set[i], c);
    }
  }
  if (before_rope) result.key = rotate(model_, result.key, pivot);
  result.log_size = log_size ? std::log(tokens) : 0.0;
  return result;
}

std::vector<NaiveMerge> NaiveReplay::tome(int head, const std::set<int>& retained) const {
  const SpecPart& part = *policy_.find("tome");
  const std::set<int> dropped = named("drop", head);
  std::map<int, std::map<int, double>> given;  // by receiver: what it is given, by giver
  for (const int evicted : caches_[head]) {
    if (retained.count(evicted) == 1 || dropped.count(evicted) == 1) continue;
    int best = -1;
    double largest = -2.0;
    for (const int token : retained) {
      const double lengths = key_norm(head, evicted) * key_norm(head, token);
      const double cosine = lengths > 0.0 ? product(head, evicted, token) / lengths : 0.0;
      if (cosine > largest) {
        best = token;
        largest = cosine;
      }
    }
    if (best < 0 || largest < part.number("threshold")) continue;
    const double own = value_norm(head, evicted, 2), other = value_norm(head, best, 2);
    const double weight = std::clamp(largest, 0.0, 1.0) * own / (own + other + 1e-6);
    if (weight > 1e-6) given[best][evicted] = weight;
  }
  std::vector<NaiveMerge> merges;
  for (const auto& [token, givers] : given) {
    double sum = 1.0;
    for (const auto& [giver, weight] : givers) sum += weight;
    std::map<int, double> members = givers;
    members[token] = 1.0;
    NaiveMerge merge;
    merge.into = token;
    merge.key_too = false;
    for (const auto& [member, weight] : members) {
      merge.from.push_back(member);
      merge.weights.push_back(weight / sum);
    }
    for (int c = 0; c < model_.head_dim; ++c) merge.key.push_back(key(head, token, c));
    for (int c = 0; c < model_.value_width(); ++c) {
      double mean = 0.0;
      for (std::size_t i = 0; i < merge.from.size(); ++i) {
        mean += merge.weights[i] * value(head, merge.from[i], c);
      }
      merge.value.push_back(mean);
    }
    merges.push_back(merge);
  }
  return merges;
}

std::vector<NaiveMerge> NaiveReplay::cam(int head, const std::set<int>& retained) const {
  const SpecPart& part = *policy_.find("cam");
  const auto seed = static_cast<std::uint64_t>(part.number("seed"));
  std::map<int, NaiveMerge> receivers;
  for (const int evicted : caches_[head]) {
    if (retained.count(evicted) == 1) continue;
    std::vector<int> next;
    for (const int token : retained) {
      if (token > evicted && static_cast<int>(next.size()) < part.count("m")) next.push_back(token);
    }
    if (next.empty()) continue;
    double reference = 0.0;
    for (const int token : next) {
      const double a = received_[head].at(token);
      reference = part.word("denominator") == "max"
                      ? std::max(reference, a)
                      : reference + a / static_cast<double>(next.size());
    }
    double p = std::clamp(received_[head].at(evicted) / reference, 0.0, 1.0);
    if (part.word("sample") == "bernoulli") p = hash(seed, head, evicted) < p ? 1.0 : 0.0;
    if (p == 0.0) continue;
    for (const int token : next) {
      NaiveMerge& merge = receivers[token];
      merge.from.push_back(evicted);
      merge.weights.push_back(p / static_cast<double>(next.size()));
    }
  }
  std::vector<NaiveMerge> merges;
  for (auto& [token, merge] : receivers) {
    merge.into = token;
    merge.from.push_back(token);
    merge.weights.push_back(1.0);
    merge.key_too = false;
    for (int c = 0; c < model_.head_dim; ++c) merge.key.push_back(key(head, token, c));
    for (int c = 0; c < model_.value_width(); ++c) {
      double sum = 0.0;
      for (std::size_t i = 0; i < merge.from.size(); ++i) {
        sum += merge.weights[i] * value(head, merge.from[i], c);
      }
      merge.value.push_back(sum);
    }
    merges.push_back(merge);
  }
  return merges;
}

void NaiveReplay::carry_out(int head, const std::vector<NaiveMerge>& merges) {
  for (const NaiveMerge& merge : merges) {
    Merged entry;
    for (const double x : merge.key) entry.key.push_back(stored(x));
    for (const double x : merge.value) entry.value.push_back(stored(x));
    entry.log_size = stored(merge.log_size);
    merged_[head][merge.into] = entry;
    if (!merge.key_too) continue;
    double received = 0.0;
    for (const int token : merge.from) received += received_[head].at(token);
    received_[head][merge.into] = received;
  }
}

}  // namespace kvloupe::naive
