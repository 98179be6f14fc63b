#pragma once
// Whose queries a measure asks. Many policies choose by a step's own last query, so a measure with
// that query judges a policy by the policy's own choice. The model's answer depends on the queries
// that come later: those of the question, and those that write the answer.

#include <array>
#include <vector>

#include "analysis/trace/segments.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

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
