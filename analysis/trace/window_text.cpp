#include "analysis/trace/window_text.h"

#include <map>
#include <utility>

namespace kvloupe {

std::string window_note_in_brief(const std::string& note) {
  return note.ends_with(kLeavesTheWindow) ? note.substr(0, note.size() - kLeavesTheWindow.size())
                                          : "";
}

std::string window_text(const Trace& trace) {
  std::map<std::pair<std::string, int>, int> layers;  // of each window or chunk
  const int count = static_cast<int>(trace.storing_layers().size());
  for (const int layer : trace.storing_layers()) {
    const Reach reach = trace.reach(layer);
    if (!reach.all()) ++layers[{reach.name(), reach.span()}];
  }
  std::string text;
  for (const auto& [reach, of_layers] : layers) {
    text += (text.empty() ? "" : ", ") + reach.first + " of " + std::to_string(reach.second) +
            " tokens";
    if (of_layers < count) {
      text += " in " + std::to_string(of_layers) + " of " + std::to_string(count) + " layers";
    }
  }
  return text;
}

}  // namespace kvloupe
