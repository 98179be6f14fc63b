#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/text/unknown.h"
#include "analysis/math/sink.h"

namespace kvloupe {

inline constexpr const char* kRescueFormat = "kvloupe-rescue";
/// RescueSettings::expect where a run is right if the text that it writes has no loop. The expected
/// tokens, whose log-probability runs have, are then the full cache's own.
inline constexpr const char* kNoLoop = "no-loop";

/// The outcome of one run of the model.
struct RescueOutcome {
  bool right = false;    // the model says the expected text
  double logprob = 0.0;  // of the expected tokens, each after those before it; nats
};

/// The effect of one intervention on the answer. For a place that was not run alone, `right` is
/// false and the numbers are NaN.
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
  int set_tests = 0;    // sets of heads that were asked for

  int known_heads() const;  // heads that were run alone
  /// Nothing known of any place.
  static RescueSide unknown(int layers, int heads_per_layer);
};

/// The replay's numbers for a head, to compare with the effect measured in the model. Numbers may
/// be NaN.
struct RescuePrediction {
  HeadIndex at;
  double loss = 0.0;           // attention read × share lost
  double question_loss = 0.0;  // the same, of the question's reads
  double change = 0.0, logit = 0.0;
  double blame = 0.0;  // FollowedHead::blame
  // Predictors of the head's effect when the full cache drops the tokens in this head alone. NaN in
  // results of earlier versions.
  double attention = kUnknown;   // read with the full cache (TokenReads::read)
  double score_rank = kUnknown;  // of the tokens by the policy's score: 1 the highest, 0 the lowest
  double drop_blame = kUnknown;  // FollowedHead::blame of the full cache without the tokens
};

/// A stopped search can continue only if all these settings are equal. Prompt and model are
/// identified by their content, because a file of the same name may have changed.
struct RescueSettings {
  std::string model, fingerprint;
  std::string policy;  // canonical spec
  int budget = 0;      // entries
  int block = 0;       // 0: not said, in results of earlier versions
  std::string dtype;
  std::vector<int> tokens;
  std::string prompt;  // its name
  std::vector<std::int32_t> prompt_ids;
  std::optional<std::string> expect;  // what is right, as it was asked for
  std::vector<std::string> answers;   // or one of these; else what the full cache says
  int answer_tokens = 0;
  std::string probe;  // how the context was read a second time; empty: it was not
  bool operator==(const RescueSettings&) const = default;
};

/// The results of kvloupe-capture rescue (docs/follow.md).
struct RescueResults : RescueSettings {
  /// The parts that are present, in the order in which a search adds them. With `all`, the results
  /// are complete.
  enum class Part { runs, expected, full, policy, predicted, all } reached = Part::runs;
  std::vector<std::pair<std::string, RescueOutcome>> runs;  // by spec, in their order
  std::vector<std::int32_t> expected_ids;
  std::string expected;
  bool full_right = true, policy_right = false;
  double full_logprob = 0.0, policy_logprob = 0.0;  // of the expected text, nats
  std::string full_says, policy_says;
  RescueSide keep;  // beside the policy
  RescueSide drop;  // from the full cache
  /// By falling blame, as `kvloupe follow` sorts them.
  std::vector<RescuePrediction> predictions;
  /// [L · Hk] what `kvloupe follow` blames a head with (FollowedHead::blame); NaN where it is not
  /// known. Results of earlier versions have attention read × share lost.
  std::vector<double> predicted;
  std::string predicted_by = "loss";  // blame_name()
  std::string predicted_over;         // restored_over(): whose answer; empty in earlier versions
  /// No set was looked for, because keeping the tokens in all heads turns no wrong answer right.
  bool stopped = false;
  /// Rank correlation of `predicted` with the log-probability when the tokens are kept in that head
  /// alone, over the heads that were run; or NaN.
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
  /// The run of a spec, or null.
  const RescueOutcome* find_run(const std::string& spec) const;
};

/// "2.0, 3.1": layer and head.
std::string heads_text(const std::vector<HeadIndex>& heads, const char* between = ", ");

/// From the file's JSON, which is an object of this format. Throws results::Wrong, whose text
/// continues the file's name: a search that is not finished, numbers missing or out of range,
/// places out of order, or of files without a shape not all of them.
RescueResults rescue_results(const nlohmann::ordered_json& json);

/// Settings and runs of a search that is to go on; nothing where there is no such file. Throws
/// FileError: it is another kind of file, or of a newer version.
std::optional<RescueResults> begun_rescue(const std::string& path);

/// The text that write_rescue() writes.
std::string rescue_text(const RescueResults& results);
/// Writes the parts that are present; the file is written in full or not at all. Throws FileError.
void write_rescue(const RescueResults& results, const std::string& path);

}  // namespace kvloupe
