#pragma once

#include <string>
#include <vector>

namespace kvloupe {

/// How a model's rotary frequencies differ from the plain θ^(−2j/d), for contexts longer than it
/// was first trained for. Names and formulas as in Hugging Face configs ("rope_scaling").
struct RopeScaling {
  enum class Type {
    none,
    linear,   // every frequency divided by `factor` (position interpolation)
    llama3,   // Llama 3.1: divides only frequencies that turn slowly in the original context
    yarn,     // YaRN (Peng et al., 2023): the same by pairs, and stretches queries and keys
    factors,  // every pair's frequency divided by a number of its own (rope_freqs of a GGUF file)
  };
  Type type = Type::none;
  double factor = 1.0;
  // Only llama3. With turns = original_context · frequency / 2π, the turns of a pair within the
  // original context: above high_freq_factor the frequency stays, below low_freq_factor it is
  // divided, in between the two are blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // Only yarn. Pairs up to the one with beta_fast turns within the original context keep their
  // frequency, from beta_slow turns on it is divided, and in between it changes linearly with the
  // pair; `truncate` rounds these limits to whole pairs. Rotated queries and keys are multiplied by
  // attention_factor (see rope_stretch).
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double attention_factor = 1.0;
  bool truncate = true;
  std::vector<double> factors;    // only factors: [d/2], what each pair's frequency is divided by
  double original_context = 0.0;  // llama3 and yarn: "original_max_position_embeddings"

  bool operator==(const RopeScaling&) const = default;
};

/// Reads a "rope_scaling" (or "rope_parameters") object; JSON null and the type "default" mean no
/// scaling. The type is read from "rope_type" or the older "type". For yarn, missing fields follow
/// from the others: the original context is `most_positions`, the number of positions the model is
/// made for (0: not known); factor is the ratio of the two; attention_factor is 0.1 ln factor + 1,
/// or the ratio of two such numbers under "mscale" and "mscale_all_dim". Throws
/// std::invalid_argument that names the problem: not an object, an unknown type, a factor that is
/// missing or impossible.
RopeScaling parse_rope_scaling(const std::string& json, double most_positions = 0.0);

/// The same as one JSON object with "rope_type"; "null" for none.
std::string rope_scaling_json(const RopeScaling& scaling);

/// The angle by which pair j turns from one position to the next, [d/2]. Throws
/// std::invalid_argument where theta is too small for yarn, or the factors are not d/2.
std::vector<double> rope_frequencies(double theta, int head_dim, const RopeScaling& scaling);

/// The factor by which a rotation with this scaling stretches lengths: attention_factor for yarn,
/// else 1. Queries and keys in a trace both include it.
double rope_stretch(const RopeScaling& scaling);

}  // namespace kvloupe
