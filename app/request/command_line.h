#pragma once

#include <string>

#include "app/document/figure_file.h"
#include "app/request/figure_request.h"

namespace kvloupe::request {

/// The command line that writes the same file as the window: one line for a shell, with every
/// setting that is not a default. `page` is the size in points the page comes out with, for options
/// without a size of their own.
std::string command_line(const figure::FigureInfo& info, const FigureRequest& request,
                         const figure::FileOptions& options, const figure::PageSize& page,
                         const std::string& path);

/// A word as a POSIX shell takes it, quoted where it has to be.
std::string shell_word(const std::string& word);

}  // namespace kvloupe::request
