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
  };
  Type type = Type::none;
  double factor = 1.0;
  // llama3 only. With turns = original_context · frequency / 2π, those a pair makes within the
  // original context: above high_freq_factor the frequency stays, below low_freq_factor it is
  // divided, between them it is blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_context = 0.0;  // "original_max_position_embeddings"

  bool operator==(const RopeScaling&) const = default;
};

/// Reads a "rope_scaling" (or "rope_parameters") object; JSON null, and the type "default", are no
/// scaling. The type is looked for under "rope_type" and the older "type". Throws
/// std::invalid_argument naming what is wrong: not an object, a type that is not known here, a
/// factor that is missing or impossible.
RopeScaling parse_rope_scaling(const std::string& json);

/// The same as one JSON object with "rope_type"; "null" for none.
std::string rope_scaling_json(const RopeScaling& scaling);

/// The angle by which pair j turns from one position to the next, [d/2].
std::vector<double> rope_frequencies(double theta, int head_dim, const RopeScaling& scaling);

}  // namespace kvloupe
