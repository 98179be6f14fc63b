#include "analysis/trace/trace_check.h"
#include "analysis/unfinished_files.h"
#include "capture/file/mapped_file.h"
#include "capture/cli/commands.h"
#include "commit.h"

int main(int argc, char** argv) {
  kvloupe::begin_trace_checks(argc, argv);
  kvloupe::remove_unfinished_files_at_signals();
  kvloupe::end_on_lost_pages("kvloupe-capture");
  return kvloupe::capture_cli::run(argc, argv, KVLOUPE_COMMIT);
}
