#include "capture/cli/commands.h"
#include "commit.h"

int main(int argc, char** argv) { return kvloupe::capture_cli::run(argc, argv, KVLOUPE_COMMIT); }
