#pragma once

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// When a policy acts: at which steps entries may leave because the budget is exceeded. Between
/// these steps a cache grows beyond the budget.
struct Schedule {
  int every = 1;       // generated tokens from one act to the next; blocks of the prompt all count
  int slack = 0;       // entries that a head may hold beyond its budget before the policy acts
  bool prompt = true;  // whether it acts after blocks of the prompt
  bool generated = true;  // whether it acts after generated tokens

  /// Both together: it acts where both act.
  Schedule with(const Schedule& other) const;
  /// Whether the policy may act after this block, of a sequence whose first `prompt_length` tokens
  /// are the prompt (0: not known; then only a schedule that acts always has a meaning). A block of
  /// several generated tokens counts where one of them is an `every`-th.
  bool acts(const Block& block, int prompt_length) const;
};

}  // namespace kvloupe
