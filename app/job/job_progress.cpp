#include "app/job/job_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/duration_text.h"

namespace kvloupe::job {

double JobProgress::since(Clock::rep start) {
  const auto time = Clock::now().time_since_epoch() - Clock::duration(start);
  return std::chrono::duration<double>(time).count();
}

double JobProgress::seconds() const { return begun() ? since(begun_) : 0.0; }

std::optional<double> JobProgress::seconds_left() const {
  constexpr double kFirst = 1.0;  // seconds
  constexpr double kLeast = 0.02;
  const double share = fraction(), so_far = seconds();
  if (so_far < kFirst || share < kLeast) return std::nullopt;
  return so_far * std::max(0.0, 1.0 - share) / share;
}

std::string in_percent(double share) {
  return fmt::format("{:.0f} %", std::floor(100 * std::clamp(share, 0.0, 1.0)));
}

std::string how_far(const JobProgress& progress) {
  if (!progress.begun()) return "waiting for another job";
  if (progress.fraction() >= 1.0) return "finishing";
  const auto counted = progress.counted();
  // All are done while the whole is not: what goes on now is not counted.
  const bool goes_on = counted && counted->of > 1 && counted->done < counted->of;
  const std::string share =
      goes_on ? fmt::format("{} of {} {}", counted->done, counted->of, counted->things)
              : in_percent(progress.fraction());
  const std::optional<double> left = progress.seconds_left();
  return left ? share + ", " + duration_text(*left) + " left" : share;
}

}  // namespace kvloupe::job
