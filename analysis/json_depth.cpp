#include "analysis/json_depth.h"

#include <cstddef>

namespace kvloupe {

bool is_deep_json(std::string_view json) {
  // Counts brackets outside strings. In a text that is not JSON, the count covers at least the part
  // that a parser reads before it stops.
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace kvloupe
