#pragma once

#include <string>

namespace kvloupe::test {

/// Makes sure that there is an X display: the one in $DISPLAY, else a virtual one (Xvfb) started
/// for the rest of this process. Returns why there is none, or an empty text.
std::string need_display();

/// A virtual one of its own even where there is a display, for tests that move the pointer.
std::string need_own_display();

}  // namespace kvloupe::test
