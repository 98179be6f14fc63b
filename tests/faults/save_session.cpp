// save_session FROM TO: reads a session and saves it, as the window does, for the campaign of
// faults.

#include "analysis/base/core/error.h"
#include "app/session/session.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    kvloupe::window::write_session(kvloupe::window::read_session(argv[1]), argv[2]);
    return 0;
  } catch (...) {
    return kvloupe::report_failure("save_session");
  }
}
