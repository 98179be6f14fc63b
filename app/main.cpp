#include "app/cli/commands.h"

int main(int argc, char** argv) { return kvloupe::cli::run(argc, argv); }
