// The retained sets of another program, for the policy external("file").

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/kept_sets.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(kept_sets) {
  using namespace kvloupe;
  const KeptSets sets = read_kept_sets(fuzz::as_file(input, "sets.json").string(), 0);
  for (int step = 0; step < 3; ++step) {
    std::int32_t before = -1;
    try {
      for (const std::int32_t token : sets.at(0, step)) {
        fuzz::require(token > before, "a set that does not ascend");
        before = token;
      }
    } catch (const FileError&) {
    }
  }
}
