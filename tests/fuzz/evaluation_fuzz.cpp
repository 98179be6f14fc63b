// The results of kvloupe-capture eval and rescue.

#include "analysis/evaluation/evaluation.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(evaluation) {
  kvloupe::read_evaluation(kvloupe::fuzz::as_file(input, "results.json"));
}
