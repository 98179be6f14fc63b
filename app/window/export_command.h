#pragma once

#include <string>
#include <vector>

#include "app/figure/figure_file.h"
#include "app/window/state.h"

namespace kvloupe::window {

/// The command line that writes the same file as the window: one line for a shell, every setting
/// that is not a default said. `page` is the size in points the page comes out with, for options
/// without a size of their own. `inputs` are the files it is made from; none: the state's trace.
std::string export_command(const WorkspaceState& state, const TileState& tile, int step,
                           const figure::FileOptions& options, const figure::PageSize& page,
                           const std::string& path, const std::vector<std::string>& inputs = {});

/// A word as a POSIX shell takes it, quoted if needed.
std::string shell_word(const std::string& word);

}  // namespace kvloupe::window
