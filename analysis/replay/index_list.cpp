#include "analysis/replay/index_list.h"

#include <charconv>
#include <set>
#include <string>

#include "analysis/error.h"

namespace kvloupe {

namespace {
int parse_index(std::string_view text, std::string_view what, int count) {
  int value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end || text.front() == '-') {
    throw UsageError(std::string(what) + " '" + std::string(text) +
                     "': is not an index; write a list such as 0-3,7");
  }
  if (error != std::errc() || value >= count) {
    throw UsageError(std::string(what) + " " + std::string(text) + ": the trace has " +
                     std::string(what) + "s 0 to " + std::to_string(count - 1));
  }
  return value;
}
}  // namespace

std::vector<int> parse_index_list(std::string_view text, std::string_view what, int count) {
  std::set<int> indices;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    const std::string_view item = text.substr(first, end - first);
    const std::size_t dash = item.find('-', 1);
    if (item.size() > 1 && dash != std::string_view::npos) {
      const int from = parse_index(item.substr(0, dash), what, count);
      const int to = parse_index(item.substr(dash + 1), what, count);
      if (to < from) {
        throw UsageError(std::string(what) + " '" + std::string(item) +
                         "': the range runs backwards; write the smaller index first");
      }
      for (int i = from; i <= to; ++i) indices.insert(i);
    } else {
      indices.insert(parse_index(item, what, count));
    }
    first = end + 1;
  }
  return {indices.begin(), indices.end()};
}

}  // namespace kvloupe
