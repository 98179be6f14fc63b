#define GL_GLEXT_PROTOTYPES
#include "app/window/shell/surface.h"

#include <GL/gl.h>
#include <GL/glext.h>
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstring>
#include <optional>
#include <utility>

#include "analysis/base/core/error.h"
#include "app/window/shell/input_queue.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

namespace {
#if IMGUI_VERSION_NUM >= 18700
constexpr bool kQueuesPointer = false;  // it has a queue of its own
#else
constexpr bool kQueuesPointer = true;
#endif
}  // namespace

struct Surface::Impl {
  GLFWwindow* window = nullptr;
  bool offscreen = false;
  int width = 0, height = 0;  // off the screen
  GLuint framebuffer = 0, colour = 0;
  std::function<void(std::vector<std::string>)> drop;
  InputQueue input;
  // The pointer as the frame sees it, after the queue.
  std::optional<ImVec2> pointer;
  std::array<bool, 5> buttons{};  // ImGui knows five

  static Impl& of(GLFWwindow* window) {
    return *static_cast<Impl*>(glfwGetWindowUserPointer(window));
  }
  /// Keys, characters and the pointer by way of the queue; the rest as ImGui's backend has it.
  void take_input() {
    glfwSetKeyCallback(window, [](GLFWwindow* source, int key, int scancode, int action, int mods) {
      if (key > 0) of(source).input.push(KeyEvent{key, scancode, action, mods, 0});
    });
    glfwSetCharCallback(window, [](GLFWwindow* source, unsigned character) {
      of(source).input.push(KeyEvent{0, 0, GLFW_PRESS, 0, character});
    });
    if (!kQueuesPointer) return;
    glfwSetMouseButtonCallback(window, [](GLFWwindow* source, int button, int action, int) {
      of(source).input.push(PointerEvent{button, action == GLFW_PRESS});
    });
    glfwSetCursorPosCallback(window, [](GLFWwindow* source, double x, double y) {
      of(source).input.push(PointerEvent{-1, false, x, y});
    });
  }
  void give_input() {
    input.next_frame(ImGui::GetIO().WantTextInput,
                     {[this](const KeyEvent& event) {
                        if (event.key == 0) {
                          ImGui_ImplGlfw_CharCallback(window, event.character);
                        } else {
                          ImGui_ImplGlfw_KeyCallback(window, event.key, event.scancode,
                                                     event.action, event.modifiers);
                        }
                      },
                      [this](const PointerEvent& event) {
                        if (event.button < 0) {
                          pointer =
                              ImVec2(static_cast<float>(event.x), static_cast<float>(event.y));
                        } else if (static_cast<std::size_t>(event.button) < buttons.size()) {
                          buttons[static_cast<std::size_t>(event.button)] = event.down;
                        }
                      }});
  }
  /// After the backend, which asks where the pointer is now: that may be ahead of the buttons.
  void place_pointer() const {
    if (!kQueuesPointer) return;
    ImGuiIO& io = ImGui::GetIO();
    std::copy(buttons.begin(), buttons.end(), io.MouseDown);
    // The backend leaves the place out where the window is neither in front nor pointed at.
    if (pointer && io.MousePos.x > -FLT_MAX) io.MousePos = *pointer;
  }

  void make_target() {
    if (!framebuffer) {
      glGenFramebuffers(1, &framebuffer);
      glGenRenderbuffers(1, &colour);
    }
    glBindRenderbuffer(GL_RENDERBUFFER, colour);
    glRenderbufferStorage(GL_RENDERBUFFER, GL_RGBA8, width, height);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, colour);
    if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
      throw WorkError("OpenGL cannot make a picture of " + std::to_string(width) + " x " +
                      std::to_string(height) + " pixels; try a smaller --size");
    }
  }
};

namespace {
#if IMGUI_VERSION_NUM >= 18700
constexpr ImGuiKey kKeypadEnter = ImGuiKey_KeypadEnter;
#else
constexpr ImGuiKey kKeypadEnter = ImGuiKey_KeyPadEnter;
#endif

void map_keys() {
  ImGuiIO& io = ImGui::GetIO();
  const std::pair<ImGuiKey, int> keys[] = {{ImGuiKey_Tab, GLFW_KEY_TAB},
                                           {ImGuiKey_LeftArrow, GLFW_KEY_LEFT},
                                           {ImGuiKey_RightArrow, GLFW_KEY_RIGHT},
                                           {ImGuiKey_UpArrow, GLFW_KEY_UP},
                                           {ImGuiKey_DownArrow, GLFW_KEY_DOWN},
                                           {ImGuiKey_PageUp, GLFW_KEY_PAGE_UP},
                                           {ImGuiKey_PageDown, GLFW_KEY_PAGE_DOWN},
                                           {ImGuiKey_Home, GLFW_KEY_HOME},
                                           {ImGuiKey_End, GLFW_KEY_END},
                                           {ImGuiKey_Insert, GLFW_KEY_INSERT},
                                           {ImGuiKey_Delete, GLFW_KEY_DELETE},
                                           {ImGuiKey_Backspace, GLFW_KEY_BACKSPACE},
                                           {ImGuiKey_Space, GLFW_KEY_SPACE},
                                           {ImGuiKey_Enter, GLFW_KEY_ENTER},
                                           {ImGuiKey_Escape, GLFW_KEY_ESCAPE},
                                           {kKeypadEnter, GLFW_KEY_KP_ENTER},
                                           {ImGuiKey_A, GLFW_KEY_A},
                                           {ImGuiKey_C, GLFW_KEY_C},
                                           {ImGuiKey_V, GLFW_KEY_V},
                                           {ImGuiKey_X, GLFW_KEY_X},
                                           {ImGuiKey_Y, GLFW_KEY_Y},
                                           {ImGuiKey_Z, GLFW_KEY_Z}};
  for (const auto& [name, code] : keys) io.KeyMap[name] = code;
}
}  // namespace

Surface::Surface(const Options& options) : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  s.offscreen = options.offscreen;
  glfwSetErrorCallback([](int, const char*) {});
  if (!glfwInit()) {
    throw WorkError(
        "no display to open a window on; run inside a desktop session, or as: xvfb-run -a kvloupe "
        "…");
  }
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  glfwWindowHint(GLFW_DEPTH_BITS, 0);
  glfwWindowHint(GLFW_STENCIL_BITS, 0);
  glfwWindowHint(GLFW_VISIBLE, options.offscreen ? GLFW_FALSE : GLFW_TRUE);
  glfwWindowHintString(GLFW_X11_CLASS_NAME, "kvloupe");
  s.window = glfwCreateWindow(options.offscreen ? 64 : options.width,
                              options.offscreen ? 64 : options.height, options.title.c_str(),
                              nullptr, nullptr);
  if (!s.window) {
    glfwTerminate();
    throw WorkError(
        "no OpenGL 3.3 on this display; install libgl1-mesa-dri for a software renderer");
  }
  glfwMakeContextCurrent(s.window);
  glfwSwapInterval(options.offscreen ? 0 : 1);
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  io.ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigInputTextCursorBlink = false;  // a still window can sleep
  if (s.offscreen) {
    s.width = options.width;
    s.height = options.height;
    s.make_target();
    map_keys();
  } else {
    glfwSetWindowSizeLimits(s.window, 640, 480, GLFW_DONT_CARE, GLFW_DONT_CARE);
    glfwSetWindowUserPointer(s.window, &s);
    glfwSetDropCallback(s.window, [](GLFWwindow* window, int count, const char** paths) {
      if (const Impl& self = Impl::of(window); self.drop) self.drop({paths, paths + count});
    });
    ImGui_ImplGlfw_InitForOpenGL(s.window, true);
    s.take_input();
  }
  ImGui_ImplOpenGL3_Init("#version 330 core");
}

Surface::~Surface() {
  ImGui_ImplOpenGL3_Shutdown();
  if (!impl_->offscreen) ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
  glfwDestroyWindow(impl_->window);
  glfwTerminate();
}

bool Surface::closing() const { return glfwWindowShouldClose(impl_->window) != 0; }
void Surface::close() { glfwSetWindowShouldClose(impl_->window, GLFW_TRUE); }

void Surface::stay_open() { glfwSetWindowShouldClose(impl_->window, GLFW_FALSE); }

void Surface::wait(double seconds) {
  if (seconds > 0.0) {
    glfwWaitEventsTimeout(seconds);
  } else {
    glfwPollEvents();
  }
}

bool Surface::has_input() const { return !impl_->input.empty(); }

void Surface::wake() { glfwPostEmptyEvent(); }

void Surface::on_drop(std::function<void(std::vector<std::string>)> handler) {
  impl_->drop = std::move(handler);
}

void Surface::set_title(const std::string& title) {
  glfwSetWindowTitle(impl_->window, title.c_str());
}

void Surface::resize(int width, int height) {
  impl_->width = width;
  impl_->height = height;
  impl_->make_target();
}

int Surface::width() const {
  if (impl_->offscreen) return impl_->width;
  int width = 0;
  glfwGetFramebufferSize(impl_->window, &width, nullptr);
  return width;
}

int Surface::height() const {
  if (impl_->offscreen) return impl_->height;
  int height = 0;
  glfwGetFramebufferSize(impl_->window, nullptr, &height);
  return height;
}

float Surface::content_scale() const {
  if (impl_->offscreen) return 1.0F;
  float x = 1.0F;
  glfwGetWindowContentScale(impl_->window, &x, nullptr);
  return std::clamp(x, 1.0F, 3.0F);
}

void Surface::begin_frame() {
  ImGui_ImplOpenGL3_NewFrame();
  ImGuiIO& io = ImGui::GetIO();
  if (impl_->offscreen) {
    io.DisplaySize = {static_cast<float>(impl_->width), static_cast<float>(impl_->height)};
    io.DeltaTime = 1.0F / 60.0F;
  } else {
    impl_->give_input();
    ImGui_ImplGlfw_NewFrame();
    impl_->place_pointer();
  }
  ImGui::NewFrame();
}

void Surface::end_frame() {
  ImGui::Render();
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glViewport(0, 0, width(), height());
  const ImVec4 paper = ImGui::GetStyle().Colors[ImGuiCol_WindowBg];
  glClearColor(paper.x, paper.y, paper.z, 1.0F);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  if (impl_->offscreen) {
    glFinish();
  } else {
    glfwSwapBuffers(impl_->window);
  }
}

void Surface::drop_frame() { ImGui::EndFrame(); }

void Surface::upload_fonts() {
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  if (!ImGui_ImplOpenGL3_CreateFontsTexture()) {
    throw WorkError("OpenGL cannot hold the window's fonts; try a smaller scale");
  }
}

Picture Surface::picture() const {
  Picture picture{impl_->width, impl_->height, {}};
  const std::size_t row = static_cast<std::size_t>(picture.width) * 3;
  std::vector<std::uint8_t> flipped(row * static_cast<std::size_t>(picture.height));
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, picture.width, picture.height, GL_RGB, GL_UNSIGNED_BYTE, flipped.data());
  picture.rgb.resize(flipped.size());
  for (int y = 0; y < picture.height; ++y) {
    std::memcpy(&picture.rgb[row * static_cast<std::size_t>(y)],
                &flipped[row * static_cast<std::size_t>(picture.height - 1 - y)], row);
  }
  return picture;
}

}  // namespace kvloupe::window
