#pragma once
// Which tokens after the prompt a model was given, and what it would have written in their place.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace/segments.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// The origin of the tokens after a prompt.
struct GivenTokens {
  /// The given ones, right after the prompt; empty where the model chose every token, or where
  /// that is not known.
  TokenRange range;
  /// A given token in whose place the model would have chosen another one, and that one.
  struct Other {
    int token = 0;
    std::int32_t id = 0;
    std::string text;  // "#7" where the trace does not say
  };
  std::vector<Other> others;  // ascending
  bool compared = false;      // the trace says what the model would have chosen
  /// What the model wrote after the prompt when nothing was given to it, in the same cache.
  std::vector<std::int32_t> own_ids;  // empty: the trace does not say
  /// The same as text. Without own_ids, as far as it follows from the others: up to the first of
  /// them, and "…". Empty: not known, or nothing was given.
  std::string own_text;

  /// Null where the model would have chosen the same token, or did choose it.
  const Other* other(int token) const;
};

/// Reads the file: for a background job. A trace of an older kvloupe does not say what was given;
/// as kvloupe always chooses the most probable token, another one means that all were given. Throws
/// FileError.
GivenTokens given_tokens(const Trace& trace);

/// The name of a token's segment, as it is shown: "answer · given" where the model did not choose
/// the answer's token. Empty in a trace without segments, "given" for a given token there.
std::string part_name(const Trace& trace, const GivenTokens& given, int token);

/// The same, and for a token given after the prompt what the model would have chosen: "answer ·
/// given · the model would have chosen “69”".
std::string part_text(const Trace& trace, const GivenTokens& given, int token);

/// " + 16 given + 4 generated": how many tokens follow the prompt.
std::string count_after_prompt(const RunInfo& run, const GivenTokens& given);

/// One sentence or two about an answer that was given: what the model wrote itself, or would have.
/// Empty where nothing was given.
std::string own_answer_note(const GivenTokens& given);

}  // namespace kvloupe
