#pragma once

#include "analysis/study/prompt_set.h"
#include "capture/tokenizer/prompt.h"

namespace kvloupe {

/// A prompt of a set: a prompt file with its segments, or a line of JSON lines; fields of it that
/// are not read are noted. Throws FileError as
/// read_prompt() and read_prompt_line() do.
Prompt read_set_prompt(const PromptPlace& place);

}  // namespace kvloupe
