#pragma once

#include <string>
#include <vector>

#include "app/window/widgets/text_search.h"
#include "app/window/widgets/token_text.h"

namespace kvloupe::window {

/// The state that the panel of the text keeps from frame to frame.
struct TextPanel {
  TokenText text;
  TextSearch search;
  std::string followed_key;   // of the trace and the words that name them
  std::vector<int> followed;  // tokens, ascending
};

}  // namespace kvloupe::window
