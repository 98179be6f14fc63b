#pragma once
// A training run: the model's shape, the optimiser and the curriculum. Read from a JSON file, so
// that variants are files.

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/corpus.h"

namespace kvloupe::train {

struct ModelShape {
  std::int64_t layers = 4;
  std::int64_t hidden = 256;        // D
  std::int64_t heads = 8;           // Hq
  std::int64_t kv_heads = 4;        // Hk
  std::int64_t head_dim = 32;       // d
  std::int64_t intermediate = 512;  // of the gated MLP
  double rope_theta = 500000.0;
  std::int64_t max_positions = 4096;
};

/// The rate falls along half a cosine, from 1 to final_rate times its value, over `steps` steps. At
/// step `until` the fall may end, and the rate is full again (a restart).
struct Decay {
  std::int64_t begin = 0;
  std::int64_t steps = 1;
  std::int64_t until = 0;
};

/// AdamW (Loshchilov, Hutter 2019): linear warm-up, constant rate, then the decays.
struct OptimizerSettings {
  double rate = 2.5e-3;
  double final_rate = 0.05;  // share of the rate at the last step
  std::int64_t warmup_steps = 100;
  std::vector<Decay> decays;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double gradient_clip = 1.0;
};

/// A cost that is added to the loss in some of the steps: 0 before step `begin`, rising over the
/// next `rise` steps to `value`, constant, then falling linearly to 0 between the steps `fall` and
/// `end`; from `end` on it is exactly 0.
struct TimedCost {
  double value = 0.0;
  std::int64_t begin = 0;
  std::int64_t rise = 0;
  std::int64_t fall = 0;
  std::int64_t end = 0;

  /// The cost at a step, counted from 0.
  double at(std::int64_t step) const;
};

/// A cost of attention that does not rest on token 0, which grows attention sinks: `cost` times the
/// mean of 1 − a₀ over layers, query heads and the queries from the 9th on is added to the loss.
///
/// A resting head adds a₀v₀, so a head that rests well has a small v₀. `small_value` times the mean
/// over layers and key heads of a₀ |v₀|² / mean |v|² (a₀: mean of the key head's queries; only v₀
/// is trained by this term, a₀ and the mean are taken as they are) is added to the mean of 1 − a₀,
/// and rises and falls with it.
struct Rest {
  TimedCost cost;
  double small_value = 0.0;
};

/// A cost that makes the first heads of layer 0 look a fixed number of tokens back, early in a run:
/// `cost` times the mean of −log a over the query heads i < `tokens` and the queries t > i is added
/// to the loss, a the attention that query t of head i gives token t − 1 − i. Heads that find a
/// word by the word before it (induction heads; Olsson and others 2022) need such heads below them.
/// Neither kind helps without the other, so without this cost both grow late.
struct LookBack {
  TimedCost cost;
  std::int64_t tokens = 3;
};

/// The weight of each token's loss, by its role.
struct RoleWeights {
  double text = 1.0;
  double quoted = 1.0;
  double answer = 1.0;
};

/// Steps with one sequence length and one mix of passages.
struct Stage {
  std::int64_t steps = 0;
  int length = 256;
  int sequences = 16;         // per step
  double weight_decay = 0.1;  // of matrices; norms are not decayed
  double orthogonal = 0.0;    // above 0: length of the layers' orthogonal steps (see update())
  RoleWeights weights;
  Mix mix;
};

struct Recipe {
  std::string text;  // as read
  std::uint64_t seed = 1;
  double deviation = 0.02;  // of the first weights; less for those that write into the residual
  ModelShape model;
  OptimizerSettings optimizer;
  Rest rest;
  LookBack look_back;
  std::vector<Stage> stages;

  std::int64_t total_steps() const;
  /// The stage of a step; the last stage for steps after the end.
  const Stage& stage(std::int64_t step) const;
  /// Learning rate of a step, counted from 0.
  double rate(std::int64_t step) const;
};

/// Parses a recipe. Absent fields keep the defaults above. Throws FileError naming the field: not
/// JSON, an unknown field, a value out of range.
Recipe parse_recipe(const std::string& text, const std::string& where);
/// Reads and parses a file. Throws FileError.
Recipe read_recipe(const std::string& path);

/// The config.json of a model of this shape and vocabulary (LlamaForCausalLM, tied embeddings).
std::string model_config_json(const ModelShape& shape, int vocabulary_size);

}  // namespace kvloupe::train
