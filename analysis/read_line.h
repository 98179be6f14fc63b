#pragma once

#include <cstddef>
#include <istream>
#include <string>

namespace kvloupe {

/// The next line of a text, without its end, as std::getline reads it; of a longer line only the
/// first `most` + 1 bytes are kept, which tells the caller and takes no more memory. False at the
/// end of the text, and, with in.bad(), where reading fails.
bool read_line(std::istream& in, std::string& line, std::size_t most);

}  // namespace kvloupe
