#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/window/fonts.h"
#include "app/window/palette.h"

namespace kvloupe::window {

/// A sheet to choose a file by keyboard or mouse: a path to type, the folder's content below.
class FilePanel {
 public:
  enum class Purpose { open_trace, open_session, save_session, open_model, open_prompt };

  void open(Purpose purpose, const std::string& start);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  Purpose purpose() const { return purpose_; }

  /// Draws the sheet where it is open. True once a path was chosen: chosen().
  bool draw(const Fonts& fonts, const Palette& colours);
  const std::string& chosen() const { return path_; }

 private:
  struct Entry {
    std::string name;
    bool folder = false;
    std::uintmax_t bytes = 0;
  };
  void list(const std::filesystem::path& folder);
  bool fits(const std::filesystem::path& file) const;

  Purpose purpose_ = Purpose::open_trace;
  bool open_ = false;
  bool appeared_ = false;
  std::string path_;
  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  std::string problem_;
};

}  // namespace kvloupe::window
