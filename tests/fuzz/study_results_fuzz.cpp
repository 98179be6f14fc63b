// The results of kvloupe study: an SQLite file.

#include "analysis/study/study_results.h"
#include "analysis/study/summary.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(study_results) {
  using namespace kvloupe;
  StudyResults results(fuzz::as_file(input, "results.sqlite"));
  results.items();
  results.measures();
  results.each_value([](int, const StudyValue&) {});
  summary_markdown(summarise(results));
}
