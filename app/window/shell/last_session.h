#pragma once

#include <filesystem>
#include <string>

namespace kvloupe::window {

class Workspace;

/// Where an error ends the window: saves what it showed as last-session.json beside `recent_list`,
/// the list of recent files, and puts this session at the top of the list. Returns the sentence
/// that tells the user how to come back; empty where nothing is shown, there is no list, or the
/// session cannot be written. Does not throw.
std::string keep_last_session(const Workspace& workspace, const std::filesystem::path& recent_list);

}  // namespace kvloupe::window
