// A table of one number per layer and head: CSV, TSV, or NumPy.

#include <cmath>

#include "analysis/policy/kit/head_table_file.h"
#include "analysis/trace/model_info.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(head_table) {
  using namespace kvloupe;
  ModelInfo model{.num_layers = 2, .num_heads = 4, .num_kv_heads = 2};
  const HeadTable table = read_head_table(fuzz::as_file(input, "table.csv").string(), model);
  fuzz::require(table.size() == 4, "a table of another size");
  for (const double value : table)
    fuzz::require(std::isfinite(value) && value >= 0.0, "a number that is none");
}
