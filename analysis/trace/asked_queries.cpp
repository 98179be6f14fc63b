#include "analysis/trace/asked_queries.h"

#include <algorithm>

namespace kvloupe {

const char* asked_name(Asked asked) {
  switch (asked) {
    case Asked::question:
      return "question";
    case Asked::answer:
      return "answer";
    case Asked::later:
      break;
  }
  return "later";
}

std::vector<int> asked_queries(const Trace& trace, Asked asked, int first_step) {
  return asked_queries(trace.tokens(), trace.run(), asked, first_step);
}

std::vector<int> asked_queries(const TokenTable& tokens, const RunInfo& run, Asked asked,
                               int first_step) {
  std::vector<int> queries;
  if (asked == Asked::question) {
    const TokenRange question = segment_range(tokens, "question");
    for (int token = question.first; token < question.end; ++token) queries.push_back(token);
  } else if (asked == Asked::answer) {
    const TokenRange written = answer_tokens(tokens, run);
    for (int token = std::max(written.first, 1); token < written.end; ++token) {
      queries.push_back(token - 1);
    }
  } else {
    const int first = std::clamp(first_step, 0, run.tokens());
    const int count = run.tokens() - first;
    const int taken = std::min(count, kMostLater);
    for (int i = 0; i < taken; ++i) {  // the last one is the sequence's last
      queries.push_back(first + static_cast<int>((static_cast<long>(i) + 1) * count / taken) - 1);
    }
  }
  return queries;
}

TokenRange answer_tokens(const TokenTable& tokens, const RunInfo& run) {
  const TokenRange named = segment_range(tokens, "answer");
  return named.empty() ? TokenRange{run.prompt_length, run.tokens()} : named;
}

Asked asked_first(const TokenTable& tokens, const RunInfo& run) {
  if (!answer_tokens(tokens, run).empty()) return Asked::answer;
  return segment_range(tokens, "question").empty() ? Asked::later : Asked::question;
}

}  // namespace kvloupe
