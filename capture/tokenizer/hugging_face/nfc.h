#pragma once

#include "capture/tokenizer/hugging_face/aligned_text.h"

namespace kvloupe {

/// Unicode's normal form C (UAX #15), with utf8proc's tables. O(n log n). A stretch that changes
/// has the whole original stretch as its origin.
AlignedText to_nfc(const AlignedText& text);

}  // namespace kvloupe
