#include "analysis/trace/window_text.h"

#include <map>

namespace kvloupe {

std::string window_note_in_brief(const std::string& note) {
  return note.ends_with(kLeavesTheWindow) ? note.substr(0, note.size() - kLeavesTheWindow.size())
                                          : "";
}

std::string window_text(const Trace& trace) {
  std::map<int, int> layers;  // of each window
  const int count = static_cast<int>(trace.storing_layers().size());
  for (const int layer : trace.storing_layers()) ++layers[trace.window(layer)];
  layers.erase(0);
  std::string text;
  for (const auto& [window, of_layers] : layers) {
    text += (text.empty() ? "" : ", ") + std::to_string(window) + " tokens";
    if (of_layers < count) {
      text += " in " + std::to_string(of_layers) + " of " + std::to_string(count) + " layers";
    }
  }
  return text;
}

}  // namespace kvloupe
