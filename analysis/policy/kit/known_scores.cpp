#include "analysis/policy/kit/known_scores.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace kvloupe {

namespace {
/// Steps whose numbers of places are kept: of the layers that are replayed at the same time.
constexpr std::size_t kMostKept = 256;
}  // namespace

KnownScores::KnownScores(std::vector<std::vector<std::vector<float>>> scores,
                         std::vector<Reach> reaches)
    : scores_(std::move(scores)), reaches_(std::move(reaches)) {
  for (const auto& layer : scores_) {
    for (const std::vector<float>& head : layer) {
      for (const float score : head) top_ = std::max(top_, score);
    }
  }
}

int KnownScores::first_seen_later(int layer, int end) const {
  return first_seen(end, reaches_[static_cast<std::size_t>(layer)]);
}

KnownScores::Places KnownScores::no_places() const {
  Places counts;
  for (const auto& layer : scores_) counts.emplace_back(layer.size(), 0);
  return counts;
}

template <typename Make>
KnownScores::Places KnownScores::once(int kind, int end, int places, const Make& make) const {
  const auto key = std::make_pair(kind, std::make_pair(end, places));
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second;
  if (kept_.size() >= kMostKept) kept_.erase(kept_.begin());  // the earliest step
  return kept_.emplace(key, make()).first->second;
}

std::vector<std::vector<int>> KnownScores::places_of_heads(int end, int places) const {
  return once(0, end, places, [&] {
    std::vector<float> scores;  // of all heads; which is whose is asked again below
    std::size_t left = 0;       // places
    const auto for_entries = [&](int token, const auto& body) {
      for (int layer = 0; layer < layers(); ++layer) {
        if (token < first_seen_later(layer, end)) continue;
        for (int head = 0; head < heads(layer); ++head) body(layer, head, at(layer, head, token));
      }
    };
    for (int layer = 0; layer < layers(); ++layer)
      left += static_cast<std::size_t>(places) * static_cast<std::size_t>(heads(layer));
    for (int token = 0; token < end; ++token)
      for_entries(token, [&](int, int, float score) { scores.push_back(score); });
    float least = -std::numeric_limits<float>::infinity();  // scores above stay, equal ones while
                                                            // places are left
    if (left < scores.size()) {
      const auto last = scores.begin() + static_cast<std::ptrdiff_t>(left);
      std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
      least = *last;
      left -= static_cast<std::size_t>(
          std::count_if(scores.begin(), last, [&](float score) { return score > least; }));
    }
    Places counts = no_places();
    for (int token = end - 1; token >= 0; --token) {
      for_entries(token, [&](int layer, int head, float score) {
        if (score < least || (score == least && left == 0)) return;
        if (score == least) --left;
        ++counts[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)];
      });
    }
    return counts;
  });
}

std::vector<std::vector<int>> KnownScores::places_of_layers(int end, int places) const {
  return once(1, end, places, [&] {
    std::vector<std::vector<double>> composite(scores_.size());
    std::size_t caches = 0, first_cache = 0;
    for (int layer = 0; layer < layers(); ++layer) {
      if (heads(layer) == 0) continue;
      if (caches++ == 0) first_cache = static_cast<std::size_t>(layer);
      const int first = first_seen_later(layer, end);
      std::vector<double>& ranks = composite[static_cast<std::size_t>(layer)];
      ranks.assign(static_cast<std::size_t>(std::max(end - first, 0)), 0.0);
      for (int head = 0; head < heads(layer); ++head) {
        std::vector<float> own;
        for (int token = first; token < end; ++token) own.push_back(at(layer, head, token));
        std::sort(own.begin(), own.end(), std::greater<>());
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
          ranks[rank] += static_cast<double>(own[rank]) / heads(layer);
        }
      }
    }
    for (std::size_t rank = 0; rank < composite[first_cache].size(); ++rank) {
      for (const std::vector<double>& layer : composite) {
        if (rank >= layer.size()) continue;
        composite[first_cache][rank] = std::max(composite[first_cache][rank], layer[rank]);
      }
    }
    struct Entry {
      double score;
      std::size_t rank;
      std::size_t layer;
    };
    std::vector<Entry> entries;
    for (std::size_t layer = 0; layer < composite.size(); ++layer) {
      for (std::size_t rank = 0; rank < composite[layer].size(); ++rank) {
        entries.push_back({composite[layer][rank], rank, layer});
      }
    }
    const std::size_t most = static_cast<std::size_t>(places) * caches;
    if (most < entries.size()) {
      std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(most),
                       entries.end(), [](const Entry& a, const Entry& b) {
                         if (a.score != b.score) return a.score > b.score;
                         return a.rank != b.rank ? a.rank < b.rank : a.layer < b.layer;
                       });
      entries.resize(most);
    }
    Places counts = no_places();
    for (const Entry& entry : entries) {
      for (int& count : counts[entry.layer]) ++count;
    }
    return counts;
  });
}

}  // namespace kvloupe
