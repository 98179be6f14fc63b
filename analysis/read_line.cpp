#include "analysis/read_line.h"

#include <algorithm>
#include <array>

namespace kvloupe {

bool read_line(std::istream& in, std::string& line, std::size_t most) {
  line.clear();
  std::array<char, 1 << 16> piece;
  for (bool first = true;; first = false) {
    in.getline(piece.data(), piece.size());
    const auto got = static_cast<std::size_t>(in.gcount());
    if (in.bad()) return false;
    const bool at_end = in.eof();
    if (at_end && got == 0 && first) return false;
    const bool full = !at_end && in.fail();
    const std::size_t text = at_end || full ? got : got - 1;  // without the line's end
    line.append(piece.data(), std::min(text, most + 1 - std::min(line.size(), most + 1)));
    if (in.fail()) in.clear(in.rdstate() & ~std::ios::failbit);
    if (!full) return true;
  }
}

}  // namespace kvloupe
