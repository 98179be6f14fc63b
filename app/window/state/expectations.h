#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/trace/trace.h"

namespace kvloupe::window {

/// The next-token predictions of a trace's model after each token of its sequence.
struct Expectations {
  Trace::Predictions predicted;
  std::vector<std::int32_t> ids;                        // [T] of the sequence
  std::unordered_map<std::int32_t, std::string> texts;  // of the ids above, where known
  bool cut = false;                                     // by a model with a policy in its cache
};

/// Reads the file: for a background job. Without predictions both lines below are empty.
Expectations read_expectations(const Trace& trace);

/// The probability that the model gave this token after those before it: "The model gave it 97 %,
/// its first choice.". Empty for the first token, or if not known.
std::string likelihood_text(const Expectations& expected, int token);

/// The most probable next tokens after this one: "Next it expects “ 32” 97 %, “ 3” 1 %.". Empty if
/// not known.
std::string next_text(const Expectations& expected, int token);

}  // namespace kvloupe::window
