#include "analysis/policy/kit/stages.h"

#include <algorithm>

namespace kvloupe {

Schedule Schedule::with(const Schedule& other) const {
  return {std::max(every, other.every), std::max(slack, other.slack), prompt && other.prompt,
          generated && other.generated};
}

bool Schedule::acts(const Block& block, int prompt_length) const {
  if (block.end <= prompt_length) return prompt;
  if (!generated) return false;
  const int before = std::max(block.first - prompt_length, 0);
  return (block.end - prompt_length) / every > before / every;
}

}  // namespace kvloupe
