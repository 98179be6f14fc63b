#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/trace_probe.h"
#include "capture/eval/rescue.h"
#include "capture/model/model_config.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The input of a rescue: a prompt, the tokens that are kept or dropped, and the right answer.
struct RescuePrompt {
  std::string name;                // for the results
  std::vector<std::int32_t> ids;   // [T]
  std::vector<int> tokens;         // to rescue, ascending
  TokenSequence sequence;          // the prompt with its segments; of a trace, empty
  std::optional<ProbeInfo> probe;  // of a policy that reads the context a second time
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::int32_t> expected;  // of --expect; empty: what the full cache says

  int length() const { return static_cast<int>(ids.size()); }
  std::string text_of(const std::vector<std::int32_t>& some) const;
};

/// Reads the prompt, trace or sequence of a request. Throws UsageError for tokens that are not in
/// the prompt, an expected text without tokens, and a block that a second reading does not allow;
/// FileError.
RescuePrompt read_rescue_prompt(const RescueRequest& request, const ModelConfig& config,
                                const RescueReport& report);

}  // namespace kvloupe
