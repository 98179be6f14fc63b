#include "capture/run/set_prompt.h"

#include <string>
#include <utility>

namespace kvloupe {

Prompt read_set_prompt(const PromptPlace& place) {
  if (place.line < 0) return read_prompt(place.path);
  Prompt prompt;
  for (auto& [name, text] : read_prompt_line(place).segments) {
    prompt.segments.push_back({prompt.text.size(), name});
    prompt.text += text;
  }
  return prompt;
}

}  // namespace kvloupe
