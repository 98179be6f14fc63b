#include "analysis/freed_memory.h"
#include "app/cli/commands.h"
#include "commit.h"

int main(int argc, char** argv) {
  kvloupe::share_freed_memory();
  return kvloupe::cli::run(argc, argv, KVLOUPE_COMMIT);
}
