#pragma once

#include "capture/eval/eval_case.h"

namespace kvloupe {

/// eval_case() of the results of a study: its item of that number, with the prompt that it kept.
EvalCase study_case(const EvalCaseRequest& request);

}  // namespace kvloupe
