#include "app/window/widgets/run_text.h"

namespace kvloupe::window {

std::string run_text(const RunInfo& run) {
  std::string text = run.dtype;
  if (!run.device.empty()) text += (text.empty() ? "on " : " on ") + run.device;
  if (!text.empty()) text += ", ";
  return text + (!run.closed_loop() ? "full cache" : run.policy);
}

}  // namespace kvloupe::window
