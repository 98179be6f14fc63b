#include <algorithm>

#include "analysis/policy/kit/stages.h"

namespace kvloupe {

namespace {
bool any_names(const std::vector<TokenRule>& rules, int head, std::int32_t token) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const TokenRule& rule) { return rule.names(head, token); });
}

std::vector<TokenRule> joined(std::vector<TokenRule> a, const std::vector<TokenRule>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
}  // namespace

Protection Protection::with(const Protection& other) const {
  return {std::max(sink_tokens, other.sink_tokens),
          std::max(recent, other.recent),
          std::max(window, other.window),
          joined(kept, other.kept),
          joined(extra, other.extra),
          structural != nullptr ? structural : other.structural,
          std::max(structural_places, other.structural_places)};
}

int Protection::count_extra(int head, std::span<const std::int32_t> tokens) const {
  if (extra.empty()) return 0;
  return static_cast<int>(std::count_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
    return any_names(extra, head, token);
  }));
}

std::vector<Fate> Protection::fates(int head, std::span<const std::int32_t> tokens,
                                    int quota) const {
  const int n = static_cast<int>(tokens.size());
  std::vector<Fate> result(tokens.size(), Fate::evicted);
  int left = quota;
  const auto protect = [&](int row, Fate fate) {
    Fate& now = result[static_cast<std::size_t>(row)];
    if (now != Fate::evicted || left == 0) return;
    now = fate;
    --left;
  };
  for (int row = 0; row < n; ++row) {
    const std::int32_t token = tokens[static_cast<std::size_t>(row)];
    if (any_names(extra, head, token)) {
      result[static_cast<std::size_t>(row)] = Fate::held;
    } else if (any_names(kept, head, token)) {
      protect(row, Fate::held);
    }
  }
  for (int row = 0; row < n && tokens[static_cast<std::size_t>(row)] < sink_tokens; ++row) {
    protect(row, Fate::sink);
  }
  int places = structural == nullptr ? 0 : structural_places;
  const auto protect_structural = [&](int row) {
    const auto token = static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)]);
    if (places == 0 || (*structural)[token] == 0) return;
    --places;  // where another rule protects it, it takes a place all the same
    protect(row, Fate::held);
  };
  const int first = n > 0 && tokens.front() == 0 ? 1 : 0;
  if (first == 1) protect_structural(0);
  for (int row = n - 1; row >= first; --row) protect_structural(row);
  for (int back = 0; back < std::min(std::max(recent, window), n); ++back) {
    protect(n - 1 - back, back < window ? Fate::window : Fate::recent);
  }
  return result;
}

}  // namespace kvloupe
