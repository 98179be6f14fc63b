#include "tests/app/chromium.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace kvloupe::test {

using nlohmann::json;

namespace {

constexpr int kSeconds = 60;  // for an answer, on a busy machine

/// A pipe whose ends are far from the descriptors that the child is given.
std::pair<int, int> far_pipe() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  std::array<int, 2> far{};
  for (std::size_t i = 0; i < 2; ++i) {
    far[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 32);
    close(ends[i]);
  }
  return {far[0], far[1]};
}

std::string from_base64(const std::string& text) {
  std::string out;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) continue;
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

}  // namespace

std::string Chromium::program() {
  const char* folders = std::getenv("PATH");
  std::string rest = folders != nullptr ? folders : "";
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string path = rest.substr(0, end) + "/chromium";
    if (access(path.c_str(), X_OK) == 0) return path;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return {};
}

Chromium::Chromium() {
  std::signal(SIGPIPE, SIG_IGN);
  const auto [child_in, to] = far_pipe();
  const auto [from, child_out] = far_pipe();
  to_ = to;
  from_ = from;
  std::vector<std::string> words{program(),
                                 "--headless",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--disable-dev-shm-usage",
                                 "--no-first-run",
                                 "--disable-background-networking",
                                 "--disable-component-update",
                                 "--hide-scrollbars",
                                 "--host-resolver-rules=MAP * ~NOTFOUND",
                                 "--window-size=1000,900",
                                 "--user-data-dir=" + (folder_ / "profile").string(),
                                 "--remote-debugging-pipe"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in, 3);  // where the protocol wants them
  posix_spawn_file_actions_adddup2(&actions, child_out, 4);
  posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "log").c_str(), O_WRONLY | O_CREAT,
                                   0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // ends with all its children
  const int failed = posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(child_in);
  close(child_out);
  if (failed != 0) throw std::runtime_error("Chromium cannot be started");
  const json target = call("Target.createTarget", {{"url", "about:blank"}});
  const json attached =
      call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}});
  session_ = attached["sessionId"].get<std::string>();
  for (const char* domain : {"Page", "Runtime", "Log"}) call(std::string(domain) + ".enable");
  call("Emulation.setDeviceMetricsOverride",
       {{"width", 1000}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", false}});
}

Chromium::~Chromium() {
  close(to_);  // asks it to end
  close(from_);
  for (int i = 0; pid_ > 0 && i < 40; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

json Chromium::receive() {
  for (;;) {
    if (const std::size_t end = buffer_.find('\0'); end != std::string::npos) {
      const json message = json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    pollfd ready{from_, POLLIN, 0};
    std::array<char, 65536> part{};
    if (poll(&ready, 1, kSeconds * 1000) <= 0) throw std::runtime_error("Chromium does not answer");
    const ssize_t got = read(from_, part.data(), part.size());
    if (got <= 0) throw std::runtime_error("Chromium has ended");
    buffer_.append(part.data(), static_cast<std::size_t>(got));
  }
}

void Chromium::note(const json& message) {
  const std::string method = message.value("method", "");
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown") {
    complaints_.push_back(message["params"]["exceptionDetails"].dump());
  } else if (method == "Runtime.consoleAPICalled") {
    const std::string type = message["params"]["type"].get<std::string>();
    if (type == "error" || type == "warning" || type == "assert")
      complaints_.push_back(message["params"].dump());
  } else if (method == "Log.entryAdded") {
    complaints_.push_back(message["params"]["entry"].dump());
  }
}

json Chromium::call(const std::string& method, json parameters) {
  const int id = ++calls_;
  json message = {{"id", id}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = write(to_, text.data() + sent, text.size() - sent);
    if (more <= 0) throw std::runtime_error("Chromium takes no orders");
    sent += static_cast<std::size_t>(more);
  }
  for (;;) {
    json answer = receive();
    if (answer.value("id", 0) != id) {
      note(answer);
      continue;
    }
    if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
    return answer["result"];
  }
}

void Chromium::open(const std::filesystem::path& file) {
  loaded_ = false;
  call("Page.navigate", {{"url", "file://" + file.string()}});
  while (!loaded_) note(receive());
}

json Chromium::value(const std::string& expression) {
  const json result =
      call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}});
  if (result.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + result["exceptionDetails"].dump());
  return result["result"].value("value", json());
}

void Chromium::wait_for_frames() {
  call("Runtime.evaluate",
       {{"expression",
         "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"},
        {"awaitPromise", true}});
}

void Chromium::move(double x, double y) {
  call("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", x}, {"y", y}});
}

void Chromium::click(double x, double y) {
  move(x, y);
  for (const char* type : {"mousePressed", "mouseReleased"}) {
    call("Input.dispatchMouseEvent",
         {{"type", type}, {"x", x}, {"y", y}, {"button", "left"}, {"clickCount", 1}});
  }
}

void Chromium::press(const std::string& key, bool shift) {
  // The browser's own controls go by these numbers.
  static const std::map<std::string, int> numbers{
      {"Tab", 9},        {"Enter", 13},   {"Escape", 27},     {"End", 35},       {"Home", 36},
      {"ArrowLeft", 37}, {"ArrowUp", 38}, {"ArrowRight", 39}, {"ArrowDown", 40}, {" ", 32}};
  for (const char* type : {"keyDown", "keyUp"}) {
    json event = {{"type", type},
                  {"key", key},
                  {"code", key},
                  {"windowsVirtualKeyCode", numbers.at(key)},
                  {"modifiers", shift ? 8 : 0}};
    if (key == "Enter" && std::string(type) == "keyDown") event["text"] = "\r";
    call("Input.dispatchKeyEvent", event);
  }
}

void Chromium::medium(const std::string& media, const std::string& scheme) {
  call("Emulation.setEmulatedMedia",
       {{"media", media},
        {"features", json::array({{{"name", "prefers-color-scheme"}, {"value", scheme}}})}});
  wait_for_frames();
}

std::string Chromium::pdf() {
  return from_base64(
      call("Page.printToPDF", {{"printBackground", true}})["data"].get<std::string>());
}

std::string Chromium::screenshot() {
  return from_base64(call("Page.captureScreenshot")["data"].get<std::string>());
}

}  // namespace kvloupe::test
