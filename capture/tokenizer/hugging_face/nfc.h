#pragma once

#include "capture/tokenizer/hugging_face/aligned_text.h"

namespace kvloupe {

/// Unicode's normal form C (UAX #15), by utf8proc's tables. O(n log n). A stretch that changes
/// comes as a whole from the stretch it was.
AlignedText to_nfc(const AlignedText& text);

}  // namespace kvloupe
