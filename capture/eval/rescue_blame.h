#pragma once

#include "capture/eval/rescue_search.h"

namespace kvloupe {

/// The blame from a replay on the full run's states: with the policy, and with the tokens dropped
/// from the full cache. Enters the heads by falling blame into the results. A prompt that is no
/// trace is captured first, with the expected answer after it. Throws Cancelled, FileError.
RescueBlame predict_rescue(const RescueRequest& request, const RescuePrompt& prompt,
                           Progress& progress, RescueResults& results);

/// Enters the blame by head, and its rank correlation with what keeping the tokens in each head
/// proved.
void judge_blame(const RescueBlame& blame, RescueResults& results);

}  // namespace kvloupe
