#pragma once

#include <string>
#include <vector>

namespace kvloupe {

/// How a model's rotary frequencies differ from the plain θ^(−2j/d), for contexts longer than it
/// was first trained for. Names and formulas as in Hugging Face configs ("rope_scaling").
struct RopeScaling {
  enum class Type {
    none,
    linear,  // every frequency divided by `factor` (position interpolation)
    llama3,  // Llama 3.1: only frequencies that turn slowly within the original context
    yarn,    // YaRN (Peng et al., 2023): the same by pairs, and longer queries and keys
  };
  Type type = Type::none;
  double factor = 1.0;
  // llama3 only. With turns = original_context · frequency / 2π, those a pair makes within the
  // original context: above high_freq_factor the frequency stays, below low_freq_factor it is
  // divided, between them it is blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // yarn only. Pairs up to the one that makes beta_fast turns within the original context keep
  // their frequency, those from beta_slow turns on have it divided, and between them it goes over
  // linearly in the pairs; `truncate`: from and to whole pairs. Rotated queries and keys are
  // multiplied by attention_factor (see rope_stretch).
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double attention_factor = 1.0;
  bool truncate = true;
  double original_context = 0.0;  // llama3 and yarn: "original_max_position_embeddings"

  bool operator==(const RopeScaling&) const = default;
};

/// Reads a "rope_scaling" (or "rope_parameters") object; JSON null, and the type "default", are no
/// scaling. The type is looked for under "rope_type" and the older "type". For yarn, what is
/// missing follows from the rest: the original context is then `most_positions`, the positions the
/// model is for (0: not known); factor the share of those in it; attention_factor 0.1 ln factor +
/// 1, or the ratio of two such under "mscale" and "mscale_all_dim". Throws std::invalid_argument
/// naming what is wrong: not an object, a type that is not known here, a factor that is missing or
/// impossible.
RopeScaling parse_rope_scaling(const std::string& json, double most_positions = 0.0);

/// The same as one JSON object with "rope_type"; "null" for none.
std::string rope_scaling_json(const RopeScaling& scaling);

/// The angle by which pair j turns from one position to the next, [d/2]. Throws
/// std::invalid_argument where theta is too small for yarn.
std::vector<double> rope_frequencies(double theta, int head_dim, const RopeScaling& scaling);

/// What a rotation by this scaling multiplies lengths by: attention_factor of yarn, else 1. Both
/// queries and keys as a trace holds them have it.
double rope_stretch(const RopeScaling& scaling);

}  // namespace kvloupe
