#pragma once

#include <string>

#include "trainer/corpus.h"

namespace kvloupe::train {

/// A prompt as the text of a prompt file: marker lines @@context, @@needle and @@question, and
/// every line of text starting with a space, so that its first word is one token.
std::string prompt_file(const NeedlePrompt& prompt, const Vocabulary& vocabulary);

}  // namespace kvloupe::train
