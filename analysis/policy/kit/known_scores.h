#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Scores of all entries of a sequence that are known before the first step, of all heads of all
/// layers. Entries from `length` on, which the scores do not cover, count as the highest of all:
/// they are younger than all that is scored. Thread-safe once made.
class KnownScores {
 public:
  /// `scores` [L][Hk] of [length], empty for a layer without a cache; `reaches` [L]: of each
  /// layer, 0 for none.
  KnownScores(std::vector<std::vector<std::vector<float>>> scores, std::vector<Reach> reaches);

  int layers() const { return static_cast<int>(scores_.size()); }
  /// Heads of the layer's cache; 0 where it has none.
  int heads(int layer) const {
    return static_cast<int>(scores_[static_cast<std::size_t>(layer)].size());
  }
  /// An upper limit of all scores; at least 1, the most attention there is.
  float top() const { return top_; }
  float at(int layer, int head, int token) const {
    const std::vector<float>& own =
        scores_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)];
    return static_cast<std::size_t>(token) < own.size() ? own[static_cast<std::size_t>(token)]
                                                        : top_;
  }

  /// How many entries each head holds, [L][Hk], if the places · L · Hk highest scores of all heads
  /// stay, over the tokens before `end` that later queries see. Among equal scores the later token
  /// is preferred, then the lower layer and head.
  std::vector<std::vector<int>> places_of_heads(int end, int places) const;
  /// The same by composite tokens (KVCompose), for all heads of a layer alike: each head's scores
  /// sorted, the mean over the heads of a layer at each rank; in the first layer the largest of all
  /// layers. The places · L highest of these stay.
  std::vector<std::vector<int>> places_of_layers(int end, int places) const;

 private:
  /// The first of the tokens before `end` that later queries see.
  int first_seen_later(int layer, int end) const;
  /// The same, kept, as every layer asks for it.
  using Places = std::vector<std::vector<int>>;
  /// A zero for each head.
  Places no_places() const;
  template <typename Make>
  Places once(int kind, int end, int places, const Make& make) const;

  std::vector<std::vector<std::vector<float>>> scores_;
  std::vector<Reach> reaches_;
  float top_ = 1.0F;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, std::pair<int, int>>, Places> kept_;
};

/// Interface of a score that is known for all layers before the first step.
class KnowsScores {
 public:
  virtual ~KnowsScores() = default;
  virtual std::shared_ptr<const KnownScores> known() = 0;
};

/// Interface of an allocation that shares places over all layers by such a score.
class NeedsKnownScores {
 public:
  virtual ~NeedsKnownScores() = default;
  /// Once, before any step; borrowed, must outlive the allocation's last step.
  virtual void by(KnowsScores& score) = 0;
};

}  // namespace kvloupe
