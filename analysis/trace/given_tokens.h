#pragma once
// Which tokens after the prompt a model was given, and what it would have written in their place.

#include <array>
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

// Whose queries a measure asks. Many policies choose by a step's own last query, so a measure with
// that query judges a policy by the policy's own choice. The model's answer depends on the queries
// that come later: those of the question, and those that write the answer.

enum class Asked {
  question,  // the tokens of the segment "question"
  answer,    // those that write the answer: each token before one of answer_tokens()
  later      // tokens after the first step, up to kMostLater of them, evenly spaced
};
inline constexpr std::array<Asked, 3> kAllAsked = {Asked::question, Asked::answer, Asked::later};
/// "question", "answer", "later": the beginning of a measure's name.
const char* asked_name(Asked asked);

/// The answer: the segment "answer" of the prompt, where the trace has one; else the generated
/// tokens.
TokenRange answer_tokens(const TokenTable& tokens, const RunInfo& run);

/// Most later queries that a measure takes its mean over. From more tokens it takes a sample.
inline constexpr int kMostLater = 128;

/// The tokens whose queries are asked, ascending; empty where the trace has none. `first_step`: the
/// first token after the first step, before which nothing can have been evicted.
std::vector<int> asked_queries(const Trace& trace, Asked asked, int first_step);
std::vector<int> asked_queries(const TokenTable& tokens, const RunInfo& run, Asked asked,
                               int first_step);

/// The queries that a trace allows: the answer's where it has an answer, else the question's, else
/// those of all later tokens.
Asked asked_first(const TokenTable& tokens, const RunInfo& run);

}  // namespace kvloupe
