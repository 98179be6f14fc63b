// A prompt file with marked segments, and a file of token ids.

#include "analysis/base/core/error.h"
#include "capture/tokenizer/prompt.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(prompt) {
  using namespace kvloupe;
  const auto path = fuzz::as_file(input, "prompt.txt");
  try {
    for (const std::int32_t id : read_ids(path, 32000))
      fuzz::require(id >= 0 && id < 32000, "an id outside the vocabulary");
  } catch (const FileError&) {
  }
  const Prompt prompt = read_prompt(path);
  std::size_t at = 0;
  for (const Segment& segment : prompt.segments) {
    fuzz::require(segment.begin >= at && segment.begin <= prompt.text.size(),
                  "a segment outside the text");
    at = segment.begin;
  }
}
