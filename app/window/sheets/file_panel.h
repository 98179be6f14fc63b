#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/job/computed.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// A sheet to choose a file by keyboard or mouse: a path to type, the folder's content below. The
/// folder is read in the background: it may lie on a slow network.
class FilePanel {
 public:
  enum class Purpose {
    open_trace,
    open_session,
    save_session,
    open_model,
    open_prompt,
    open_prompts,
    save_report,
    save_page,
    save_finding,
    save_head_table
  };

  /// `wake` as JobQueue's.
  explicit FilePanel(std::function<void()> wake) : queue_(1, std::move(wake)) {}

  void open(Purpose purpose, const std::string& start);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  Purpose purpose() const { return purpose_; }

  /// Draws the sheet if it is open. True when a path was chosen: chosen().
  bool draw(const Fonts& fonts, const WindowColours& colours);
  const std::string& chosen() const { return path_; }
  /// The folder is being read.
  bool listing() const { return open_ && listing_.computing(); }

 private:
  struct Entry {
    std::string name;
    bool folder = false;
    std::uintmax_t bytes = 0;
  };
  struct Listing {
    std::vector<Entry> entries;
    std::string problem;  // one line; empty where all is well
  };
  void list(const std::filesystem::path& folder);
  static Listing read(const std::filesystem::path& folder, Purpose purpose, Progress& progress);

  Purpose purpose_ = Purpose::open_trace;
  bool open_ = false;
  bool appeared_ = false;
  std::string path_;
  std::filesystem::path folder_;
  long listed_ = 0;
  job::JobQueue queue_;
  job::Computed<Listing> listing_;
};

}  // namespace kvloupe::window
