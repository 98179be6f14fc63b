#include "tests/naive/naive_replay.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive {

NaiveReplay::NaiveReplay(const LayerStates& states, const ModelInfo& model,
                         LayerAttention attending, int layer, PolicySpec policy, int budget)
    : states_(states),
      model_(model),
      attending_(std::move(attending)),
      layer_(layer),
      policy_(std::move(policy)),
      budget_(budget),
      caches_(states.keys.size()),
      leaving_(states.keys.size()),
      received_(states.keys.size()),
      merged_(states.keys.size()),
      stamps_(states.keys.size()),
      few_bits_(states.keys.size()) {
  // A window that hides nothing of the sequence is none.
  if (states.keys.front().rows() <= model_.sliding_window) model_.sliding_window = 0;
}

const NaiveReplay::Merged* NaiveReplay::merged(int head, int token) const {
  const auto found = merged_[head].find(token);
  return found == merged_[head].end() ? nullptr : &found->second;
}

double NaiveReplay::key(int head, int token, int c) const {
  const Merged* entry = merged(head, token);
  return entry != nullptr ? entry->key[c] : static_cast<double>(states_.keys[head](token, c));
}

double NaiveReplay::value(int head, int token, int c) const {
  const Merged* entry = merged(head, token);
  return entry != nullptr ? entry->value[c] : static_cast<double>(states_.values[head](token, c));
}

double NaiveReplay::capped(double x) const {
  const double c = attending_.softcap;
  return c > 0.0 ? c * std::tanh(x / c) : x;
}

double NaiveReplay::logit(int query_head, int query_token, int key_token) const {
  const Matrix& query = states_.queries[query_head];
  const int head = model_.head_of(query_head);
  double sum = 0.0;
  for (int c = 0; c < model_.head_dim; ++c) {
    sum += static_cast<double>(query(query_token, c)) * key(head, key_token, c);
  }
  const Merged* entry = merged(head, key_token);
  return capped(attending_.scale * sum) + (entry != nullptr ? entry->log_size : 0.0);
}

double NaiveReplay::captured_logit(int query_head, int query_token, int key_token) const {
  const Matrix& query = states_.queries[query_head];
  const Matrix& keys = states_.keys[model_.head_of(query_head)];
  double sum = 0.0;
  for (int c = 0; c < model_.head_dim; ++c) {
    sum += static_cast<double>(query(query_token, c)) * static_cast<double>(keys(key_token, c));
  }
  return capped(attending_.scale * sum);
}

NaiveReplay::Scores NaiveReplay::attention(int query_head, int query_token,
                                           const std::vector<int>& tokens, Logit logits) const {
  Scores result;
  const bool sink = !attending_.sink_logits.empty();
  const double sink_logit = sink ? static_cast<double>(attending_.sink_logits[query_head]) : 0.0;
  double largest = sink ? sink_logit : -std::numeric_limits<double>::infinity();
  for (const int token : tokens) {
    result[token] = 0.0;
    if (sees(query_token, token)) {
      largest = std::max(largest, (this->*logits)(query_head, query_token, token));
    }
  }
  double sum = sink ? std::exp(sink_logit - largest) : 0.0;
  for (const int token : tokens) {
    if (!sees(query_token, token)) continue;
    result[token] = std::exp((this->*logits)(query_head, query_token, token) - largest);
    sum += result[token];
  }
  for (auto& [token, weight] : result) weight /= sum;
  return result;
}

NaiveReplay::Scores NaiveReplay::step_attention(int query_head, int query_token) const {
  const int head = model_.head_of(query_head);
  Scores result = attention(query_head, query_token, present_[head]);
  for (const int token : leaving_[head]) result.erase(token);
  return result;
}

double NaiveReplay::product(int head, int a, int b) const {
  double sum = 0.0;
  for (int c = 0; c < model_.head_dim; ++c) {
    sum += key(head, a, c) * key(head, b, c);
  }
  return sum;
}

double NaiveReplay::key_norm(int head, int token) const {
  return std::sqrt(product(head, token, token));
}

double NaiveReplay::value_norm(int head, int token, int power) const {
  double sum = 0.0;
  for (int c = 0; c < model_.value_width(); ++c)
    sum += std::pow(std::abs(value(head, token, c)), power);
  return power == 1 ? sum : std::sqrt(sum);
}

double NaiveReplay::hash(std::uint64_t seed, int head, int token) const {
  // The output function of splitmix64 (Steele, Lea, Flood 2014), on the state after one increment.
  const auto mix = [](std::uint64_t state) {
    std::uint64_t z = state + 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  };
  std::uint64_t hash = mix(seed);
  for (const int place : {layer_, head, token})
    hash = mix(hash + static_cast<std::uint64_t>(place));
  return static_cast<double>(hash >> 40) / 16777216.0;
}

NaiveReplay::Scores NaiveReplay::score(int head, const Block& block, int budget) const {
  const NaiveScore* twin = find_score(policy_.score().name);
  if (twin != nullptr) return twin->score(*this, head, block, budget);
  if (known_ == nullptr) throw std::logic_error("no naive score for " + policy_.score().name);
  Scores scores;
  for (const int token : caches_[head]) scores[token] = known_->scores[head][token];
  return scores;
}

namespace {
/// "2.1;3": layer.head, or a layer.
bool names_head(const std::string& text, int layer, int head) {
  if (text.empty()) return true;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ';');) {
    const std::size_t dot = item.find('.');
    if (std::stoi(item) != layer) continue;
    if (dot == std::string::npos || std::stoi(item.substr(dot + 1)) == head) return true;
  }
  return false;
}

/// "2-4;11;20-"
bool names_token(const std::string& text, int token) {
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ';');) {
    const std::size_t dash = item.find('-');
    const int first = std::stoi(item);
    const int last = dash == std::string::npos ? first
                     : dash + 1 == item.size() ? 1 << 30
                                               : std::stoi(item.substr(dash + 1));
    if (token >= first && token <= last) return true;
  }
  return false;
}
}  // namespace

std::set<int> NaiveReplay::named(const std::string& modifier, int head) const {
  std::set<int> result;
  const SpecPart* part = policy_.find(modifier);
  if (part == nullptr || !names_head(part->word("heads"), layer_, head)) return result;
  for (const int token : caches_[head]) {
    if (names_token(part->word("tokens"), token)) result.insert(token);
  }
  return result;
}

int NaiveReplay::beside_budget(int head) const {
  std::set<int> beside;
  const SpecPart* keep = policy_.find("keep");
  if (keep != nullptr && keep->count("extra") != 0) beside = named("keep", head);
  const SpecPart* prompt = policy_.find("protect_prompt");
  for (const int token : caches_[head]) {
    if (prompt != nullptr && prompt->count("extra") != 0 && token < prompt_length_) {
      beside.insert(token);
    }
  }
  return static_cast<int>(beside.size());
}

bool NaiveReplay::acts(const Block& block) const {
  const bool generated = block.first >= prompt_length_;
  if (const SpecPart* only = policy_.find("only")) {
    if (generated != (only->word("part") == "generated")) return false;
  }
  const SpecPart* every = policy_.find("every");
  if (every == nullptr || !generated) return true;
  for (int token = block.first; token < block.end; ++token) {
    if ((token - prompt_length_ + 1) % every->count("n") == 0) return true;
  }
  return false;
}

std::set<int> NaiveReplay::protect(int head, int budget) const {
  const SpecPart& score = policy_.score();
  const NaiveScore* twin = find_score(score.name);
  const auto count = [&](const std::string& parameter) {
    return parameter.empty() ? 0 : score.count(parameter);
  };
  int first_tokens = twin == nullptr ? 0 : count(twin->first_tokens);
  int last_entries = twin == nullptr ? 0 : count(twin->last_entries);
  if (twin != nullptr && twin->last_share < 1.0) {
    last_entries = std::min(last_entries, static_cast<int>(twin->last_share * budget_));
  }
  if (const SpecPart* sinks = policy_.find("sinks")) {
    first_tokens = std::max(first_tokens, sinks->share("n", budget_));
  }
  if (const SpecPart* recent = policy_.find("recent")) {
    last_entries = std::max(last_entries, recent->share("r", budget_));
  }
  const std::vector<int>& tokens = caches_[head];
  std::set<int> result;
  budget += beside_budget(head);
  for (const int token : named("keep", head)) {
    if (static_cast<int>(result.size()) < budget) result.insert(token);
  }
  for (const int token : tokens) {
    if (policy_.find("protect_prompt") == nullptr || token >= prompt_length_) continue;
    if (static_cast<int>(result.size()) < budget) result.insert(token);
  }
  for (const int token : tokens) {
    if (token < first_tokens && static_cast<int>(result.size()) < budget) result.insert(token);
  }
  if (const SpecPart* boundaries = policy_.find("boundaries")) {
    std::vector<int> structural;  // in the order in which they take places
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
      if (structural_[*token] != 0) structural.push_back(*token);
    }
    std::stable_partition(structural.begin(), structural.end(), [](int t) { return t == 0; });
    const int places = std::min<int>(boundaries->share("r", budget_), structural.size());
    for (int i = 0; i < places; ++i) {
      if (static_cast<int>(result.size()) < budget) result.insert(structural[i]);
    }
  }
  for (int back = 1; back <= std::min<int>(last_entries, static_cast<int>(tokens.size())); ++back) {
    if (static_cast<int>(result.size()) < budget) result.insert(tokens[tokens.size() - back]);
  }
  return result;
}

void NaiveReplay::evict(int head, const Block& block, int quota, HeadStep& step) const {
  std::set<int> absorbed;
  if (policy_.find("kvmerger") != nullptr) {
    step.merges = kvmerger(head, step.protected_tokens, quota);
  }
  for (const NaiveMerge& merge : step.merges) {
    absorbed.insert(merge.from.begin(), merge.from.end());
    absorbed.erase(merge.into);
  }
  const bool refits = policy_.find("attentionmatching") != nullptr;
  if (policy_.find("pages") != nullptr) {
    keep_pages(quota, step);
    if (refits) step.refits = refitted(head, step.retained);
    return;
  }
  std::vector<int> left;
  for (const int token : step.cache) {
    if (absorbed.count(token) == 0 && step.dropped.count(token) == 0) left.push_back(token);
  }
  step.retained = step.protected_tokens;
  int first = quota;
  if (const SpecPart* critical = policy_.find("critical")) {
    const int already = static_cast<int>(step.protected_tokens.size());
    const bool of_budget = critical->word("of") == "budget";
    const double share = critical->number("alpha") * (of_budget ? quota : quota - already);
    first = static_cast<int>(std::floor(share + 1e-9)) + (of_budget ? 0 : already);
    first = std::max(first, already);
    step.second_scores = critical_second(head, block, step.scores);
  }
  const bool enough = static_cast<int>(left.size()) <= quota;
  for (const int token : best(step.scores, left, step.retained)) {
    if (static_cast<int>(step.retained.size()) >= first) break;
    step.retained.insert(token);
    if (!enough) step.threshold = step.scores[token];
  }
  for (const int token : best(step.second_scores, left, step.retained)) {
    if (static_cast<int>(step.retained.size()) >= quota) break;
    step.retained.insert(token);
    if (!enough) step.second_threshold = step.second_scores[token];
  }
  // A set whose pivot is evicted is gone as a whole.
  std::erase_if(step.merges,
                [&](const NaiveMerge& merge) { return step.retained.count(merge.into) == 0; });
  if (policy_.find("cam") != nullptr) step.merges = cam(head, step.retained);
  if (policy_.find("tome") != nullptr) step.merges = tome(head, step.retained);
  if (refits) step.refits = refitted(head, step.retained);
}

int NaiveReplay::still_seen(const Block& block) const {
  int count = 0;
  for (int token = 0; token < block.end; ++token) count += sees(block.end, token) ? 1 : 0;
  return count;
}

void NaiveReplay::forget_unseen(int head, const Block& block) {
  leaving_[head].clear();
  for (const int token : caches_[head]) {
    if (!sees(block.end, token)) leaving_[head].insert(token);  // the next query is the first later
  }
  for (const int token : leaving_[head]) {
    std::erase(caches_[head], token);
    received_[head].erase(token);
  }
}

void NaiveReplay::stamp_entries(int head, const Block& block) {
  Scores attention;
  const int group = model_.group_size();
  for (const int token : caches_[head]) {
    stamps_[head].insert({token, token});
    attention[token] = 0.0;
  }
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (const auto& [token, weight] : step_attention(query_head, block.end - 1)) {
      attention[token] += weight / group;
    }
  }
  const std::vector<int> order = best(attention, caches_[head], {});
  const double top = policy_.score().number("top") / 100.0;
  const auto count = static_cast<std::size_t>(
      std::max(std::floor(top * static_cast<double>(order.size()) + 1e-9), 1.0));
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    stamps_[head][order[i]] = block.end - 1;
  }
}

void NaiveReplay::order_by_gate(std::vector<HeadStep>& steps, int length, int few) {
  std::map<int, std::vector<std::pair<double, int>>> chunks;  // score of all heads, token
  for (const int token : steps.front().cache) {
    double sum = 0.0;
    for (const HeadStep& step : steps) sum += step.scores.at(token);
    chunks[token / length].emplace_back(sum, token);
  }
  if (chunks.empty()) return;
  std::map<int, double> mean, even;
  std::vector<double> means, evens;
  for (const auto& [chunk, entries] : chunks) {
    double sum = 0.0, least = 0.0, shifted = 0.0, entropy = 0.0;
    for (const auto& [score, token] : entries) {
      sum += score;
      least = std::min(least, score);
    }
    for (const auto& [score, token] : entries) shifted += score - least;
    for (const auto& [score, token] : entries) {
      const double p = (score - least) / (shifted + 1e-8);
      entropy -= p * std::log(p + 1e-8);
    }
    const double n = static_cast<double>(entries.size());
    mean[chunk] = sum / n;
    even[chunk] = n > 1.0 ? std::min(std::max(entropy / std::log(n), 0.0), 1.0) : 0.0;
    means.push_back(mean[chunk]);
    evens.push_back(even[chunk]);
  }
  std::sort(means.begin(), means.end());
  std::sort(evens.begin(), evens.end());
  const double high = means[(means.size() - 1) / 2], low = evens[(evens.size() - 1) / 2];
  std::vector<std::pair<double, int>> by_mean, rest;
  for (const auto& [chunk, value] : mean) by_mean.emplace_back(value, chunk);
  std::sort(by_mean.rbegin(), by_mean.rend());
  std::vector<int> order;
  for (const auto& [value, chunk] : by_mean) {
    auto entries = chunks[chunk];
    std::sort(entries.rbegin(), entries.rend());
    const bool gated = value >= high && even[chunk] < low;
    for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
      if (gated && i >= few) {
        rest.push_back(entries[i]);
      } else {
        order.push_back(entries[i].second);
      }
    }
  }
  std::sort(rest.rbegin(), rest.rend());
  for (const auto& [score, token] : rest) order.push_back(token);
  for (HeadStep& step : steps) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      step.scores[order[i]] = static_cast<double>(order.size() - i);
    }
  }
}

void NaiveReplay::group_by_chunks(std::vector<HeadStep>& steps) const {
  const SpecPart* part = policy_.find("chunks");
  if (part == nullptr) return;
  if (part->count("few") > 0)
    return order_by_gate(steps, part->count("length"), part->count("few"));
  std::map<int, double> sum, count;  // by chunk
  for (const HeadStep& step : steps) {
    for (const auto& [token, score] : step.scores) sum[token / part->count("length")] += score;
  }
  for (const int token : steps.front().cache) count[token / part->count("length")] += 1.0;
  for (HeadStep& step : steps) {
    for (auto& [token, score] : step.scores) {
      score = sum[token / part->count("length")] / count[token / part->count("length")];
    }
  }
}

std::vector<HeadStep> NaiveReplay::step(const Block& block) {
  blocks_.push_back(block);
  std::vector<HeadStep> steps(caches_.size());
  const int heads = static_cast<int>(caches_.size());
  const int group = model_.group_size();
  for (int head = 0; head < heads; ++head) {
    for (int token = block.first; token < block.end; ++token) caches_[head].push_back(token);
    const NaiveScore* twin = find_score(policy_.score().name);
    const bool accumulates = twin != nullptr && twin->accumulates;
    if (!accumulates && !policy_.find("kvmerger") && !policy_.find("cam")) continue;
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      for (int query = block.first; query < block.end; ++query) {
        for (const auto& [token, weight] : attention(query_head, query, caches_[head])) {
          received_[head][token] += weight / group;
        }
      }
    }
  }
  present_ = caches_;
  for (int head = 0; head < heads; ++head) {
    forget_unseen(head, block);
    if (policy_.score().name == "raas") stamp_entries(head, block);
  }
  const int budget = layer_budget(block);
  int entries = 0;
  int largest = 0;
  for (int head = 0; head < heads; ++head) {
    steps[head].cache = caches_[head];
    steps[head].retained.insert(caches_[head].begin(), caches_[head].end());
    entries += static_cast<int>(caches_[head].size());
    largest = std::max(largest, static_cast<int>(caches_[head].size()));
  }
  // Under adakv the layer's entries together count, else each head's own.
  const SpecPart* slack_part = policy_.find("slack");
  int slack = slack_part == nullptr ? 0 : slack_part->share("m", budget_);
  int beside = 1 << 30;
  for (int head = 0; head < heads; ++head) beside = std::min(beside, beside_budget(head));
  if (slack > 0) slack += beside;
  const bool fits = policy_.find("adakv") != nullptr ? entries <= (budget + slack) * heads
                                                     : largest <= budget + slack;
  bool full = policy_.score().name == "full" || fits;
  if (policy_.find("global") != nullptr) {
    const std::vector<int> places = known_->places(block.end);
    full = true;
    for (int head = 0; head < heads; ++head) {
      full = full && static_cast<int>(caches_[head].size()) <= std::max(places[head], 1);
    }
  }
  if (policy_.find("headbudgets") != nullptr) {
    const std::vector<int> places = table_places(block, budget + slack);
    full = true;
    for (int head = 0; head < heads; ++head) {
      full = full && static_cast<int>(caches_[head].size()) <= places[head];
    }
  }
  full = full || !acts(block);
  std::vector<int> quota(caches_.size(), budget);
  for (int head = 0; head < heads; ++head) {
    HeadStep& one = steps[head];
    one.dropped = named("drop", head);
    if (one.dropped.size() == caches_[head].size() && !one.dropped.empty()) {
      one.dropped.erase(*one.dropped.rbegin());
    }
  }
  if (!full) {
    for (int head = 0; head < heads; ++head) {
      steps[head].scores = value_aware(head, score(head, block, budget));
      steps[head].protected_tokens = protect(head, budget);
    }
    group_by_chunks(steps);
    share_sets(steps, budget);
    for (HeadStep& one : steps) rank_pages(one);
    quota = quotas(steps, budget);
    // A head with places of its own protects within these.
    for (int head = 0; head < heads; ++head) {
      if (policy_.find("global") != nullptr || policy_.find("headbudgets") != nullptr) {
        steps[head].protected_tokens = protect(head, quota[head]);
      }
    }
  }
  before_ = {caches_, received_, merged_, {}};
  few_bits_before_ = few_bits_;
  for (int head = 0; head < heads; ++head) {
    HeadStep& one = steps[head];
    for (const int token : one.dropped) {
      one.retained.erase(token);
      one.protected_tokens.erase(token);
    }
    quota[head] += beside_budget(head);
    one.quota = quota[head];
    before_.steps.push_back(one);
    if (!full && static_cast<int>(one.retained.size()) > quota[head]) {
      evict(head, block, quota[head], one);
    }
  }
  // Only now: aggregate=layer reads the caches of other heads.
  for (int head = 0; head < heads; ++head) {
    carry_out(head, steps[head].merges);
    carry_out(head, steps[head].refits);
    keep(head, steps[head].retained);
  }
  return steps;
}

void NaiveReplay::restore(int head) {
  caches_[head] = before_.caches[head];
  received_[head] = before_.received[head];
  merged_[head] = before_.merged[head];
  few_bits_[head] = few_bits_before_[head];
}

HeadStep NaiveReplay::decide_again(int head, int quota, const std::set<int>& light,
                                   double difference) {
  restore(head);
  light_ = light;
  light_difference_ = difference;
  HeadStep step = before_.steps[head];
  step.quota = quota;
  if (static_cast<int>(step.retained.size()) > quota) evict(head, blocks_.back(), quota, step);
  carry_out(head, step.merges);
  carry_out(head, step.refits);
  keep(head, step.retained);
  light_.clear();
  return step;
}

void NaiveReplay::adopt(int head, const std::set<int>& retained) {
  restore(head);
  const HeadStep& step = before_.steps[head];
  std::vector<NaiveMerge> merges;
  if (policy_.find("kvmerger") != nullptr) {
    merges = kvmerger(head, step.protected_tokens, step.quota);
  }
  std::erase_if(merges, [&](const NaiveMerge& merge) { return retained.count(merge.into) == 0; });
  if (policy_.find("cam") != nullptr) merges = cam(head, retained);
  if (policy_.find("tome") != nullptr) merges = tome(head, retained);
  if (policy_.find("attentionmatching") != nullptr) merges = refitted(head, retained);
  carry_out(head, merges);
  keep(head, retained);
}

void NaiveReplay::keep(int head, const std::set<int>& retained) {
  caches_[head].assign(retained.begin(), retained.end());
  std::map<int, double> received;
  for (const int token : retained) {
    const auto found = received_[head].find(token);
    if (found != received_[head].end()) received.insert(*found);
  }
  received_[head] = received;
  quantise(head);
}

Measures NaiveReplay::measure(int query_head, int token, const std::set<int>& retained) const {
  const int head = model_.head_of(query_head);
  std::vector<int> prefix, has;
  for (int i = 0; i <= token; ++i) {
    if (!sees(token, i)) continue;
    prefix.push_back(i);
    if (retained.count(i) == 1 || leaving_[head].count(i) == 1) has.push_back(i);
  }
  const Scores full = attention(query_head, token, prefix, &NaiveReplay::captured_logit);
  const Scores cut = attention(query_head, token, has);
  const OutputWeight& weight = states_.output_weights[query_head];
  const int d = model_.value_width();
  // What the query multiplies the head's output by.
  const auto gate = [&](int c) {
    return states_.gates.empty() ? 1.0 : static_cast<double>(states_.gates[query_head](token, c));
  };
  // The head's output before W_O over the whole prefix, less the output over the cache.
  std::vector<double> lost(static_cast<std::size_t>(d), 0.0);
  for (int c = 0; c < d; ++c) {
    for (const int i : prefix)
      lost[c] += full.at(i) * static_cast<double>(states_.values[head](i, c));
    for (const int i : has) lost[c] -= cut.at(i) * value(head, i, c);
    lost[c] *= gate(c);
  }
  Measures result;
  for (const double x : lost) result.head_error_l2 += x * x;
  result.head_error_l2 = std::sqrt(result.head_error_l2);
  for (int column = 0; column < model_.hidden_size; ++column) {
    double change = 0.0;
    for (int c = 0; c < d; ++c) change += lost[c] * static_cast<double>(weight(c, column));
    result.perturbation_l1 += std::abs(change);
    result.perturbation_l2 += change * change;
  }
  result.perturbation_l2 = std::sqrt(result.perturbation_l2);

  for (const int i : has) result.retained_mass += full.at(i);
  if (!attending_.sink_logits.empty()) {  // an entry of value 0 that stays
    double entries = 0.0;
    for (const auto& [i, weight] : full) entries += weight;
    result.retained_mass += 1.0 - entries;
  }
  const double factor = 2.0 - 1.0 / result.retained_mass;
  for (const int i : prefix) {
    double l1 = 0.0;
    double l2 = 0.0;
    for (int column = 0; column < model_.hidden_size; ++column) {
      double output = 0.0;  // (v_i W_O)[column]
      for (int c = 0; c < d; ++c) {
        output += gate(c) * static_cast<double>(states_.values[head](i, c)) *
                  static_cast<double>(weight(c, column));
      }
      l1 += std::abs(output);
      l2 += output * output;
    }
    const bool kept = std::find(has.begin(), has.end(), i) != has.end();
    const double share = full.at(i) * (kept ? 1.0 - factor : 1.0);
    result.magnitude += full.at(i) * l1;
    result.bound_l1 += share * l1;
    result.bound_l2 += share * std::sqrt(l2);
  }
  if (!merged_[head].empty()) {
    result.bound_l1 = result.bound_l2 = std::numeric_limits<double>::quiet_NaN();
  }
  return result;
}

}  // namespace kvloupe::naive
