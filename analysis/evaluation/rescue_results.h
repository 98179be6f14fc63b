#pragma once

#include <cmath>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/metric/sink.h"

namespace kvloupe {

/// What one intervention did to the answer. Of a place that was not run alone: wrong, and NaN.
struct RescueEffect {
  HeadIndex at;          // head −1: the whole layer; layer −1: all heads
  bool right = false;    // the model says the expected text
  double logprob = 0.0;  // of the expected text, nats
  double gain = 0.0;     // logprob minus that of the run without the intervention, nats
  bool is_known() const { return !std::isnan(gain); }
};

/// Tokens kept, or dropped, in all heads, in each layer, in each head alone.
struct RescueSide {
  RescueEffect all;
  std::vector<RescueEffect> layers;  // [L]
  std::vector<RescueEffect> heads;   // [L · Hk], layer-major
  /// A set of heads of which none can be left out, if the intervention in all heads turns the
  /// answer.
  std::optional<std::vector<HeadIndex>> smallest;
  bool minimal = true;  // else the search stopped before, and perhaps some can be left out

  int known_heads() const;  // heads that were run alone
};

/// The results of kvloupe-capture rescue (docs/follow.md).
struct RescueResults {
  std::string policy;  // canonical spec
  int budget = 0;      // entries
  std::vector<int> tokens;
  std::string expected;
  std::string full_says, policy_says;
  double full_logprob = 0.0, policy_logprob = 0.0;  // of the expected text, nats
  bool policy_right = false;
  RescueSide keep;  // beside the policy
  RescueSide drop;  // from the full cache
  /// [L · Hk] what `kvloupe follow` blames a head with (FollowedHead::blame); NaN where it is not
  /// known. Results of earlier versions have attention read × share lost.
  std::vector<double> predicted;
  std::string predicted_by = "loss";  // blame_name()
  /// Of it with the log-probability when kept in that head, over the heads that were run; or NaN.
  double rank_correlation = 0.0;

  int layers() const { return static_cast<int>(keep.layers.size()); }
  int heads() const { return layers() > 0 ? static_cast<int>(keep.heads.size()) / layers() : 0; }
  /// The first so many heads by falling prediction hold the smallest set that is kept; 0 without
  /// one.
  int set_within() const;
  /// The index of a head in lists by head.
  std::size_t index(const HeadIndex& head) const {
    return static_cast<std::size_t>(head.layer * heads() + head.head);
  }
};

/// From the file's JSON, which is an object of this format. Throws results::Wrong, whose text
/// continues the file's name: a search that is not finished, numbers missing or out of range,
/// places out of order, or of files without a shape not all of them.
RescueResults rescue_results(const nlohmann::json& json);

}  // namespace kvloupe
