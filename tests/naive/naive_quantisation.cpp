// quant (KIVI): the entries that are old enough lose bits, one group after another.

#include <algorithm>
#include <cmath>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

namespace {
/// The numbers of one group, rounded to 2^bits levels between the lowest and the highest.
std::vector<double> rounded_group(const std::vector<double>& numbers, int bits) {
  const double lowest = *std::min_element(numbers.begin(), numbers.end());
  const double highest = *std::max_element(numbers.begin(), numbers.end());
  const double levels = std::pow(2.0, bits) - 1.0;
  std::vector<double> result;
  for (const double x : numbers) {
    if (lowest == highest) {
      result.push_back(x);
      continue;
    }
    const double code = std::round((x - lowest) / ((highest - lowest) / levels));
    // Numbers are held in float32.
    result.push_back(
        static_cast<double>(static_cast<float>(lowest + code * ((highest - lowest) / levels))));
  }
  return result;
}

/// The tokens whose turn it is: older than the last `residual`, not yet rounded, whole groups.
std::vector<int> due(const std::vector<int>& cache, const std::set<int>& done, int residual,
                     bool along_entries, int group) {
  std::vector<int> tokens;
  for (int i = 0; i < static_cast<int>(cache.size()) - residual; ++i) {
    if (done.count(cache[i]) == 0) tokens.push_back(cache[i]);
  }
  while (along_entries && tokens.size() % group != 0) tokens.pop_back();
  return tokens;
}
}  // namespace

void NaiveReplay::quantise(int head) {
  const SpecPart* part = policy_.find("quant");
  if (part == nullptr) return;
  const int group = part->count("group"), bits = part->count("bits");
  const auto entry = [&](int token) -> Merged& {
    const auto found = merged_[head].find(token);
    if (found != merged_[head].end()) return found->second;
    Merged whole;
    for (int c = 0; c < model_.head_dim; ++c) whole.key.push_back(key(head, token, c));
    for (int c = 0; c < model_.value_width(); ++c) whole.value.push_back(value(head, token, c));
    return merged_[head][token] = whole;
  };
  for (const bool of_keys : {true, false}) {
    if (!of_keys && model_.value_is_key_prefix) continue;
    std::set<int>& done = of_keys ? few_bits_[head].keys : few_bits_[head].values;
    const bool along_entries = part->word(of_keys ? "keys" : "values") == "channel";
    const int width = of_keys ? model_.head_dim : model_.value_width();
    const std::vector<int> tokens =
        due(caches_[head], done, part->count("residual"), along_entries, group);
    const auto number = [&](int token, int c) -> double& {
      Merged& of = entry(token);
      return of_keys ? of.key[c] : of.value[c];
    };
    const int rows = static_cast<int>(tokens.size());
    for (int row = 0; row < rows; row += along_entries ? group : 1) {
      for (int c = 0; c < width; c += along_entries ? 1 : group) {
        std::vector<double> numbers;
        const int members = along_entries ? group : std::min(group, width - c);
        const auto at = [&](int i) -> double& {
          return along_entries ? number(tokens[row + i], c) : number(tokens[row], c + i);
        };
        for (int i = 0; i < members; ++i) numbers.push_back(at(i));
        const std::vector<double> rounded = rounded_group(numbers, bits);
        for (int i = 0; i < members; ++i) at(i) = rounded[i];
      }
    }
    done.insert(tokens.begin(), tokens.end());
    if (!of_keys || !model_.value_is_key_prefix) continue;
    for (const int token : tokens) {
      for (int c = 0; c < model_.value_width(); ++c) entry(token).value[c] = entry(token).key[c];
    }
  }
}

}  // namespace kvloupe::naive
