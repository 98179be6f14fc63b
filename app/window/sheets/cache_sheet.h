#pragma once

#include <imgui.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/kept_files.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"

namespace kvloupe::window {

struct PanelContext;

/// What the cache folder holds, one line a file: what it is, its size, its last use. One removes a
/// file, or all that no program has open, and sets how much the folder may take.
class CacheSheet {
 public:
  /// `cache`: the folder; empty: the user's own.
  CacheSheet(std::filesystem::path cache, const std::function<void()>& wake)
      : cache_(std::move(cache)), queue_(1, wake) {}

  void open();
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  /// The list is being read.
  bool busy() const { return open_ && list_.computing(); }
  void draw(const PanelContext& context);

  struct Line {
    KeptFile file;
    std::string about;  // model, tokens, policy
  };
  /// As shown.
  std::vector<Line> lines() const;
  /// Where the button of a file was drawn last, in pixels; none for a file in use.
  const std::vector<std::pair<std::filesystem::path, ImVec2>>& remove_places() const {
    return remove_places_;
  }

 private:
  void read_again() { ++reads_; }
  void draw_limit(const PanelContext& context, std::uint64_t bytes);
  void draw_list(const PanelContext& context, const std::vector<Line>& lines);
  void say(const PanelContext& context, const Removal& removal);

  std::filesystem::path cache_;
  bool open_ = false;
  bool all_asked_ = false;  // the button that removes all was pressed once
  long reads_ = 0;
  std::vector<std::pair<std::filesystem::path, ImVec2>> remove_places_;
  std::string limit_;  // as typed
  job::JobQueue queue_;
  job::Computed<std::vector<Line>> list_;
};

}  // namespace kvloupe::window
