#pragma once

#include <string>

namespace kvloupe::test {

/// The first line in which two text dumps of a scene differ, both ways, or an empty text. Words and
/// counts must be the same; places may differ by one step of their rounding (0.1 point), limits of
/// axes by 0.2 %, mean colours of an image by 6 of 255: what processors and libraries differ by.
std::string dump_difference(const std::string& wanted, const std::string& found);

}  // namespace kvloupe::test
