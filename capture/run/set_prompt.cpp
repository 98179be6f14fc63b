#include "capture/run/set_prompt.h"

#include <string>

#include "analysis/one_line.h"

namespace kvloupe {

namespace {
constexpr std::size_t kLongestName = 40;
constexpr std::size_t kLongestNames = 300;
}  // namespace

Prompt read_set_prompt(const PromptPlace& place) {
  if (place.line < 0) return read_prompt(place.path);
  Prompt prompt;
  const PromptParts parts = read_prompt_line(place);
  for (const auto& [name, text] : parts.segments) {
    prompt.segments.push_back({prompt.text.size(), name});
    prompt.text += text;
  }
  std::string names;
  for (const std::string& name : parts.unread) {
    names += (names.empty() ? "" : ", ") + in_one_line(name, kLongestName);
  }
  if (!names.empty()) {
    prompt.notes.push_back(place.path.filename().string() +
                           ": the prompts and answers have nothing of the fields " +
                           in_one_line(names, kLongestNames));
  }
  return prompt;
}

}  // namespace kvloupe
