// How many entries each head keeps, in plain loops.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <tuple>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

namespace {
/// ⌊share · whole⌋ of a share that has a few decimals.
int floor_of(double share, int whole) { return static_cast<int>(std::floor(share * whole + 1e-9)); }

double half_to_even(double x) {
  const double below = std::floor(x);
  if (std::abs(x - below - 0.5) < 1e-7) return std::fmod(below, 2.0) == 0.0 ? below : below + 1.0;
  return std::floor(x + 0.5);
}
}  // namespace

int NaiveReplay::layer_budget(const Block& block) const {
  const SpecPart* pyramid = policy_.find("pyramid");
  const double n = still_seen(block);
  if (pyramid == nullptr || model_.num_layers == 1 || n <= budget_) return budget_;
  double least = budget_ / pyramid->number("beta");
  double most = 2.0 * budget_ - least;
  const int window = pyramid->count("window");
  if (most > n - window) {
    most = n - window;
    least = 2.0 * budget_ - most;
  }
  if (most < least || least < window) return budget_;
  const double share = most - layer_ * (most - least) / (model_.num_layers - 1);
  return std::max(1, static_cast<int>(half_to_even(share)));
}

std::vector<int> NaiveReplay::table_places(const Block& block, int budget) const {
  const SpecPart& part = *policy_.find("headbudgets");
  const int heads = static_cast<int>(caches_.size());
  std::ifstream file(part.word("file"));
  std::vector<double> table;  // rows of layers, separated by spaces
  for (double value = 0.0; file >> value;) table.push_back(value);
  const std::string& values = part.word("values");
  const int seen = still_seen(block);
  std::vector<int> places;
  for (int head = 0; head < heads; ++head) {
    const double own = table.at(layer_ * heads + head);
    double entries = values == "share" ? own * budget : values == "kept" ? own * seen : own;
    if (values == "weight") {
      double sum = 0.0;
      for (const double weight : table) sum += weight;
      const double all = budget * static_cast<double>(table.size());
      // Places that a head cannot use are shared evenly by the others.
      double level = 0.0, used = 0.0;
      const auto share = [&](double weight) {
        return std::min(all * weight / sum + level, 1.0 * seen);
      };
      for (double step = seen; step > 1e-9; step /= 2.0) {
        level += step;
        used = 0.0;
        for (const double weight : table) used += share(weight);
        if (used > all) level -= step;
      }
      // The largest remainders are rounded up, of equals those of the lower heads.
      std::vector<std::pair<double, int>> remainders;
      double left = all;
      for (std::size_t i = 0; i < table.size(); ++i) {
        const double below = std::floor(share(table[i]) + 1e-6);
        left -= below;
        remainders.emplace_back(below - share(table[i]), static_cast<int>(i));
      }
      std::sort(remainders.begin(), remainders.end());
      entries = std::floor(share(own) + 1e-6);
      // Early, when heads have fewer entries than places, more is left than there are heads.
      const int rounded_up =
          std::min(static_cast<int>(std::lround(left)), static_cast<int>(remainders.size()));
      for (int i = 0; i < rounded_up; ++i) {
        if (remainders[i].second == layer_ * heads + head) entries += 1.0;
      }
    }
    places.push_back(
        std::min(std::max(static_cast<int>(half_to_even(entries)), 1), std::max(seen, 1)));
  }
  return places;
}

std::vector<int> NaiveReplay::quotas(std::vector<HeadStep>& steps, int budget) const {
  const int heads = static_cast<int>(steps.size());
  if (policy_.find("global") != nullptr) {
    std::vector<int> places = known_->places(blocks_.back().end);
    for (int head = 0; head < heads; ++head) {
      const int least = std::max<int>(static_cast<int>(steps[head].protected_tokens.size()), 1);
      places[head] =
          std::min(std::max(places[head], least), static_cast<int>(steps[head].cache.size()));
    }
    return places;
  }
  if (policy_.find("headbudgets") != nullptr) {
    std::vector<int> places = table_places(blocks_.back(), budget);
    for (int head = 0; head < heads; ++head) {
      places[head] = std::min(places[head], static_cast<int>(steps[head].cache.size()));
    }
    return places;
  }
  const SpecPart* adakv = policy_.find("adakv");
  if (adakv == nullptr) return std::vector<int>(steps.size(), budget);
  const int safe = floor_of(adakv->number("safeguard"), budget);
  const bool mix = adakv->word("mode") == "mix";
  // Entries with a sure place come first, then the higher score, the later token, the lower head.
  std::vector<std::tuple<bool, double, int, int>> all;
  for (int head = 0; head < heads; ++head) {
    const HeadStep& step = steps[head];
    std::vector<std::tuple<bool, double, int>> own;
    for (const int token : step.cache) {
      // Dropped tokens must not count for the heads' needs.
      const double score = step.dropped.count(token) == 1 ? -1e300 : step.scores.at(token);
      own.emplace_back(step.protected_tokens.count(token) == 1, score, token);
    }
    std::sort(own.rbegin(), own.rend());
    for (int i = 0; i < static_cast<int>(own.size()); ++i) {
      const auto [is_protected, score, token] = own[i];
      all.emplace_back(is_protected || (!mix && i < std::max(safe, 1)), score, token, -head);
    }
  }
  std::sort(all.rbegin(), all.rend());
  std::vector<int> count(steps.size(), 0);
  for (int i = 0; i < budget * heads; ++i) ++count[-std::get<3>(all[i])];
  for (HeadStep& step : steps) step.layer_threshold = std::get<1>(all[budget * heads - 1]);
  if (!mix) return count;
  for (int head = 0; head < heads; ++head) {
    const double share = (1.0 - adakv->number("safeguard")) * count[head] + safe;
    const int least = std::max<int>(static_cast<int>(steps[head].protected_tokens.size()), 1);
    const int most = static_cast<int>(steps[head].cache.size());
    count[head] = std::min(std::max(static_cast<int>(half_to_even(share)), least), most);
  }
  return count;
}

std::pair<int, int> NaiveReplay::possible_quotas(const HeadStep& step, double tolerance) const {
  const SpecPart* adakv = policy_.find("adakv");
  if (adakv == nullptr || adakv->word("mode") == "mix" || std::isnan(step.layer_threshold)) {
    return {step.quota, step.quota};
  }
  std::vector<std::pair<bool, double>> own;  // protected, score: best first
  for (const int token : step.cache) {
    own.emplace_back(step.protected_tokens.count(token) == 1, step.scores.at(token));
  }
  std::sort(own.rbegin(), own.rend());
  const auto near = [&](int place) {
    return std::abs(own[place].second - step.layer_threshold) <= tolerance;
  };
  int pinned = std::max(floor_of(adakv->number("safeguard"), layer_budget(blocks_.back())), 1);
  pinned = std::max<int>(pinned, static_cast<int>(step.protected_tokens.size()));
  int least = step.quota, most = step.quota;
  while (least > pinned && near(least - 1)) --least;
  while (most < static_cast<int>(own.size()) && near(most)) ++most;
  return {least, most};
}

}  // namespace kvloupe::naive
