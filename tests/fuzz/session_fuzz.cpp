// A session file of the window: what is read is written so that it reads the same.

#include "app/session/session.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(session) {
  using namespace kvloupe;
  const window::WorkspaceState state = window::read_session(fuzz::as_file(input, "session.json"));
  const std::string text = window::session_text(state);
  const window::WorkspaceState again = window::read_session(fuzz::as_file(text, "session.json"));
  fuzz::require(window::session_text(again) == text, "a session that changes when it is saved");
}
