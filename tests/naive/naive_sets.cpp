// Sets that an engine can hold, in plain loops: one for all heads of a layer, whole pages.

#include <algorithm>
#include <map>
#include <variant>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

namespace {
/// How many entries of a head come before this one; of equal scores the later one does.
int place_of(const NaiveReplay::Scores& scores, int token) {
  int place = 0;
  for (const auto& [other, score] : scores) {
    if (score > scores.at(token) || (score == scores.at(token) && other > token)) ++place;
  }
  return place;
}

/// Whether a head keeps the token of `budget` places by itself.
bool votes_for(const HeadStep& step, int token, int budget) {
  if (step.protected_tokens.count(token) == 1) return true;
  int before = 0;
  for (const auto& [other, score] : step.scores) {
    if (step.protected_tokens.count(other) == 1) continue;
    const double own = step.scores.at(token);
    if (score > own || (score == own && other > token)) ++before;
  }
  return before < budget - static_cast<int>(step.protected_tokens.size());
}
}  // namespace

void NaiveReplay::share_sets(std::vector<HeadStep>& steps, int budget) const {
  const SpecPart* part = policy_.find("shared");
  if (part == nullptr) return;
  const std::string& how = part->word("how");
  const auto* by = std::get_if<double>(&part->argument("by"));
  const std::size_t group = by == nullptr ? steps.size() : static_cast<std::size_t>(*by);
  for (std::size_t first = 0; first < steps.size(); first += group) {
    const std::size_t end = std::min(first + group, steps.size());
    const std::vector<int>& cache = steps[first].cache;
    Scores shared;
    std::map<int, std::pair<int, int>> standing;  // votes, n − the best place
    for (const int token : cache) {
      double sum = 0.0;
      int best = static_cast<int>(cache.size()), votes = 0;
      for (std::size_t head = first; head < end; ++head) {
        sum += steps[head].scores.at(token);
        best = std::min(best, place_of(steps[head].scores, token));
        votes += votes_for(steps[head], token, budget) ? 1 : 0;
      }
      standing[token] = {votes, static_cast<int>(cache.size()) - best};
      shared[token] = how == "mean" ? sum / static_cast<double>(end - first)
                                    : static_cast<double>(standing[token].second);
    }
    for (const int token : cache) {
      if (how != "votes") break;
      shared[token] = 0.0;
      for (const auto& [other, own] : standing) shared[token] += own < standing[token] ? 1.0 : 0.0;
    }
    for (std::size_t head = first; head < end; ++head) steps[head].scores = shared;
  }
}

void NaiveReplay::rank_pages(HeadStep& step) const {
  const SpecPart* part = policy_.find("pages");
  if (part == nullptr) return;
  const int size = part->count("size");
  std::map<int, std::vector<double>> pages;
  for (const auto& [token, score] : step.scores) pages[token / size].push_back(score);
  for (auto& [token, score] : step.scores) {
    const std::vector<double>& page = pages.at(token / size);
    score = *std::max_element(page.begin(), page.end());
    if (part->word("rank") == "max") continue;
    score = 0.0;
    for (const double one : page) score += one;
    score /=
        static_cast<double>(page.size());  // once: ranks are whole numbers, and their means tie
  }
}

void NaiveReplay::keep_pages(int quota, HeadStep& step) const {
  const int size = policy_.find("pages")->count("size");
  std::map<int, std::set<int>> pages;
  for (const int token : step.cache) pages[token / size].insert(token);
  // The protected entries that end the cache are the recent ones, others are named or first.
  std::set<int> recent, front;
  auto back = step.cache.rbegin();
  for (; back != step.cache.rend() && step.protected_tokens.count(*back) == 1; ++back) {
    recent.insert(*back / size);
  }
  for (; back != step.cache.rend(); ++back) {
    if (step.protected_tokens.count(*back) == 1) front.insert(*back / size);
  }
  std::vector<int> order = {step.cache.back() / size};
  const auto take = [&](int page) {
    if (std::find(order.begin(), order.end(), page) == order.end()) order.push_back(page);
  };
  for (const int page : front) take(page);
  for (auto page = recent.rbegin(); page != recent.rend(); ++page) take(*page);
  const std::size_t claimed = order.size();
  for (const int token : best(step.scores, step.cache, {})) take(token / size);
  step.retained.clear();
  const auto places = static_cast<std::size_t>(std::max(quota / size, 1));
  for (std::size_t i = 0; i < std::min(places, order.size()); ++i) {
    const std::set<int>& page = pages.at(order[i]);
    step.retained.insert(page.begin(), page.end());
    if (i >= claimed) step.threshold = step.scores.at(*page.begin());
  }
  // What finds no place is not protected.
  std::erase_if(step.protected_tokens, [&](int token) { return step.retained.count(token) == 0; });
}

}  // namespace kvloupe::naive
