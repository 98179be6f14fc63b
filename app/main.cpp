#include "analysis/base/core/error.h"
#include "analysis/base/system/blas.h"
#include "analysis/base/system/freed_memory.h"
#include "analysis/base/system/output_file.h"
#include "analysis/trace/trace_check.h"
#include "app/cli/commands.h"
#include "app/job/assets.h"
#include "app/scene/font_config.h"
#include "commit.h"

int main(int argc, char** argv) {
  kvloupe::begin_trace_checks(argc, argv);
  kvloupe::remove_unfinished_files_at_signals();
  kvloupe::share_freed_memory();
  // Equal requests give equal pictures, whether or not a replay runs beside them.
  kvloupe::use_one_blas_thread();
  kvloupe::figure::use_font_folder(kvloupe::job::assets_folder() / "fonts");
  return kvloupe::end_output("kvloupe", kvloupe::cli::run(argc, argv, KVLOUPE_COMMIT));
}
