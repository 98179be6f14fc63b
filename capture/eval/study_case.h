#pragma once

#include "capture/eval/eval_case.h"

namespace kvloupe {

/// eval_case() of the results of a study: its item of that number, with the prompt that it kept.
EvalCase study_case(const EvalCaseRequest& request);

/// Throws FileError where results are of a model with another fingerprint than the request's: they
/// hold token ids, which may mean another text there. Empty: not known.
void check_model_of(const std::string& fingerprint, const EvalCaseRequest& request);

}  // namespace kvloupe
