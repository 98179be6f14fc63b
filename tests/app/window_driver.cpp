#include "tests/app/window_driver.h"

#include <imgui_internal.h>

#include "tests/support/test.h"

namespace kvloupe::test {

namespace {
constexpr float kNoDoubleClicks = 0.0F;                      // unless one is meant
constexpr const char* kLateJobs = "KVLOUPE_TEST_LATE_JOBS";  // CONTRIBUTING.md

/// Mostly little, now and then nearly so many milliseconds.
void come_late() {
  static const double longest = std::atof(std::getenv(kLateJobs));
  thread_local std::mt19937 random{std::random_device{}()};
  const double share = std::uniform_real_distribution<double>(0.0, 1.0)(random);
  std::this_thread::sleep_for(
      std::chrono::duration<double, std::milli>(longest * share * share * share));
}
}  // namespace

WindowDriver::WindowDriver(int width, int height, window::Workspace::Host host)
    : surface({"kvloupe test", width, height, true}), workspace([&] {
        if (std::getenv(kLateJobs)) job::JobQueue::delay = come_late;
        host.close = [this] { asked_to_close = true; };
        return host;
      }()) {
  ImGui::GetIO().MousePos = {-1, -1};
  ImGui::GetIO().MouseDoubleClickTime = kNoDoubleClicks;
}

double WindowDriver::frame() {
  const auto start = std::chrono::steady_clock::now();
  if (workspace.prepare_fonts(1.0F)) surface.upload_fonts();
  surface.begin_frame();
  workspace.frame();
  surface.end_frame();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

WindowDriver& WindowDriver::frames(int count) {
  for (int i = 0; i < count; ++i) frame();
  return *this;
}

WindowDriver& WindowDriver::settle() {
  frames(3);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(4);  // a busy machine
  // Frames are drawn by the processor here, which the jobs in the background need as well: the
  // longer it takes, the fewer frames.
  auto pause = std::chrono::milliseconds(5);
  while (!workspace.settled()) {
    if (std::chrono::steady_clock::now() >= limit) {
      ADD_FAILURE() << "the window does not come to rest";
      return *this;
    }
    frame();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 3 / 2, std::chrono::milliseconds(200));
  }
  return frames(1);
}

WindowDriver& WindowDriver::key(int glfw_key, bool control, bool shift) {
  ImGuiIO& io = ImGui::GetIO();
  io.KeyCtrl = control;
  io.KeyShift = shift;
  io.KeysDown[glfw_key] = true;
  frame();
  io.KeysDown[glfw_key] = false;
  io.KeyCtrl = io.KeyShift = false;
  return frames(1);
}

WindowDriver& WindowDriver::type(const std::string& utf8) {
  ImGui::GetIO().AddInputCharactersUTF8(utf8.c_str());
  return frames(2);
}

WindowDriver& WindowDriver::move(float x, float y) {
  ImGui::GetIO().MousePos = {x, y};
  return frames(1);
}

WindowDriver& WindowDriver::press(bool down) {
  ImGui::GetIO().MouseDown[0] = down;
  return frames(1);
}

WindowDriver& WindowDriver::click(float x, float y) { return move(x, y).press(true).press(false); }

WindowDriver& WindowDriver::double_click(float x, float y) {
  ImGuiIO& io = ImGui::GetIO();
  io.MouseDoubleClickTime = 1.0F;
  click(x, y).press(true).press(false);
  io.MouseDoubleClickTime = kNoDoubleClicks;
  return frames(1);
}

WindowDriver& WindowDriver::drag(float x0, float y0, float x1, float y1, int steps) {
  move(x0, y0).press(true);
  for (int i = 1; i <= steps; ++i) {
    const float share = static_cast<float>(i) / static_cast<float>(steps);
    move(x0 + share * (x1 - x0), y0 + share * (y1 - y0));
  }
  return press(false);
}

WindowDriver& WindowDriver::wheel(float x, float y, float notches) {
  move(x, y);
  ImGui::GetIO().MouseWheel = notches;
  return frames(2);
}

WindowDriver& WindowDriver::resize(int width, int height) {
  surface.resize(width, height);
  return frames(2);
}

bool WindowDriver::point_at(const std::string& window, const std::vector<std::string>& names) {
  constexpr float kStepX = 16.0F;  // finer than any control is wide
  constexpr float kStepY = 12.0F;  // and high
  ImGuiContext& context = *ImGui::GetCurrentContext();
  const auto hovers = [&](ImGuiID id, ImVec2 at) {
    ImGui::GetIO().MousePos = at;
    surface.begin_frame();
    workspace.frame();
    surface.drop_frame();  // nobody looks
    if (context.HoveredId != id) return false;
    frame();
    return context.HoveredId == id;
  };
  // A list of its own: pointing at things opens windows, such as tooltips.
  const std::vector<ImGuiWindow*> windows(context.Windows.begin(), context.Windows.end());
  for (const ImGuiWindow* found : windows) {
    if (!found->WasActive || found->Hidden ||
        std::string(found->Name).find(window) == std::string::npos) {
      continue;
    }
    ImGuiID id = found->ID;
    for (const std::string& name : names) id = ImHashStr(name.c_str(), 0, id);
    const ImRect place = found->OuterRectClipped;
    if (const auto before = found_.find(id);
        before != found_.end() && place.Contains(before->second) && hovers(id, before->second)) {
      return true;
    }
    for (float y = place.Min.y + 2; y < place.Max.y; y += kStepY) {
      for (float x = place.Min.x + 2; x < place.Max.x; x += kStepX) {
        if (!hovers(id, {x, y})) continue;
        found_[id] = {x, y};
        return true;
      }
    }
  }
  return false;
}

WindowDriver& WindowDriver::press_on(const std::string& window,
                                     const std::vector<std::string>& names) {
  if (point_at(window, names)) return press(true).press(false);
  ADD_FAILURE() << "no " << names.back() << " in " << window;
  return *this;
}

double WindowDriver::difference(const window::Picture& a, const window::Picture& b, int x0, int y0,
                                int x1, int y1) {
  if (a.width != b.width || a.height != b.height) return 1.0;
  long different = 0;
  long all = 0;
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      const auto at = (static_cast<std::size_t>(y) * static_cast<std::size_t>(a.width) +
                       static_cast<std::size_t>(x)) *
                      3;
      different += a.rgb[at] != b.rgb[at] || a.rgb[at + 1] != b.rgb[at + 1] ||
                   a.rgb[at + 2] != b.rgb[at + 2];
      ++all;
    }
  }
  return all > 0 ? static_cast<double>(different) / static_cast<double>(all) : 0.0;
}

int WindowDriver::colours(const window::Picture& picture) {
  std::set<unsigned> found;
  for (std::size_t i = 0; i + 2 < picture.rgb.size() && found.size() < 256; i += 3) {
    found.insert((picture.rgb[i] << 16U) | (picture.rgb[i + 1] << 8U) | picture.rgb[i + 2]);
  }
  return static_cast<int>(found.size());
}

}  // namespace kvloupe::test
