#include "analysis/policy/kit/nearest_word.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kvloupe {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words) {
  std::string best;
  int least = std::numeric_limits<int>::max();
  for (const std::string& word : words) {
    const int distance = edit_distance(wrong, word);
    if (distance < least) {
      least = distance;
      best = word;
    }
  }
  return best;
}

}  // namespace kvloupe
