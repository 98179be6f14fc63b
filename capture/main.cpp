#include "capture/cli/commands.h"

int main(int argc, char** argv) { return kvloupe::capture_cli::run(argc, argv); }
