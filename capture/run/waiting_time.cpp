#include "capture/run/waiting_time.h"

#include <cstdint>
#include <fstream>
#include <system_error>

namespace kvloupe {

std::optional<double> waiting_seconds(const std::filesystem::path& root) {
  std::error_code error;
  std::filesystem::directory_iterator task(root / "proc/self/task", error);
  std::optional<double> total;
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    std::uint64_t ran = 0, waited = 0;       // nanoseconds
    if (!(file >> ran >> waited)) continue;  // a thread that has ended meanwhile
    total = total.value_or(0.0) + 1e-9 * static_cast<double>(waited);
  }
  return total;
}

}  // namespace kvloupe
