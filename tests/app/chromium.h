#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace kvloupe::test {

/// Headless Chromium with one page, moved as a person moves it, through the DevTools protocol on a
/// pair of pipes. Nothing of it reaches a network: every host name resolves to nothing.
class Chromium {
 public:
  /// The path of the program; empty if it is not installed.
  static std::string program();

  Chromium();
  ~Chromium();
  Chromium(const Chromium&) = delete;
  Chromium& operator=(const Chromium&) = delete;

  /// Opens a file and waits until it is loaded.
  void open(const std::filesystem::path& file);
  /// The value of an expression of the page. A throw in it is an exception here.
  nlohmann::json value(const std::string& expression);
  /// Waits until the page has drawn two frames: what is told to a script before a frame is drawn
  /// (a change of theme, of size) has then been told.
  void wait_for_frames();
  std::string text(const std::string& expression) { return value(expression).get<std::string>(); }

  /// Pointer and keys, in pixels of the window. A key by its name: "ArrowRight", "Tab", "Enter".
  void move(double x, double y);
  void click(double x, double y);
  void press(const std::string& key, bool shift = false);
  /// "screen" or "print"; "light" or "dark". Waits for the frame in which the page is told.
  void medium(const std::string& media, const std::string& scheme);
  /// The page as a PDF, as printed.
  std::string pdf();
  /// The picture in the window, as a PNG.
  std::string screenshot();

  /// Errors and warnings the page brought about, scripts' and the browser's own.
  const std::vector<std::string>& complaints() const { return complaints_; }

  nlohmann::json call(const std::string& method,
                      nlohmann::json parameters = nlohmann::json::object());

 private:
  nlohmann::json receive();  // the next message
  void note(const nlohmann::json& message);

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  int calls_ = 0;
  bool loaded_ = false;
  std::string session_, buffer_;
  std::vector<std::string> complaints_;
};

}  // namespace kvloupe::test
