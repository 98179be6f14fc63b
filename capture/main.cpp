#include <cstdio>
#include <cstdlib>

#include "analysis/base/core/error.h"
#include "analysis/base/system/freed_memory.h"
#include "analysis/base/system/output_file.h"
#include "analysis/trace/trace_check.h"
#include "capture/cli/commands.h"
#include "capture/file/mapped_file.h"
#include "commit.h"

int main(int argc, char** argv) {
  kvloupe::begin_trace_checks(argc, argv);
  kvloupe::remove_unfinished_files_at_signals();
  kvloupe::share_freed_memory();
  kvloupe::end_on_lost_pages("kvloupe-capture");
  const int code =
      kvloupe::end_output("kvloupe-capture", kvloupe::capture_cli::run(argc, argv, KVLOUPE_COMMIT));
#ifndef __SANITIZE_ADDRESS__  // which looks for leaks when the process ends
  // Skips libtorch's clean-up, which takes a tenth of a second. All our files are closed.
  std::fflush(nullptr);
  std::_Exit(code);
#endif
  return code;
}
