#include "app/window/shell/last_session.h"

#include <exception>

#include "app/request/command_line.h"
#include "app/window/shell/workspace.h"
#include "app/window/state/recent_files.h"

namespace kvloupe::window {

std::string keep_last_session(const Workspace& workspace,
                              const std::filesystem::path& recent_list) {
  if (recent_list.empty() || !workspace.results.trace()) return {};
  const std::filesystem::path session = recent_list.parent_path() / "last-session.json";
  try {
    std::filesystem::create_directories(recent_list.parent_path());
    workspace.save_session(session.string());
    RecentFiles(recent_list).add(session);
  } catch (const std::exception&) {
    return {};  // the error to report is the one that ended the window
  }
  return "what the window showed is kept; open it again with: kvloupe --session " +
         request::shell_word(session.string());
}

}  // namespace kvloupe::window
