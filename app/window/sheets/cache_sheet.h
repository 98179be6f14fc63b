#pragma once

#include <imgui.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/kept_files.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"

namespace kvloupe::window {

struct PanelContext;

/// The files of the cache folder, one line each: kind, size, last use. The user removes a file, or
/// all files that no program has open, and sets the folder's largest size.
class CacheSheet {
 public:
  /// `cache`: the folder; empty: the user's own.
  CacheSheet(std::filesystem::path cache, const std::function<void()>& wake)
      : cache_(std::move(cache)), queue_(1, wake) {}

  void open();
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  /// The list is being read, or files are being removed.
  bool busy() const { return open_ && list_.computing(); }
  void draw(const PanelContext& context);

  struct Line {
    KeptFile file;
    std::string about;  // model, tokens, policy
  };
  /// As shown.
  std::vector<Line> lines() const;
  /// The places, in pixels, where the buttons of files were drawn last; none for a file in use.
  const std::vector<std::pair<std::filesystem::path, ImVec2>>& remove_places() const {
    return remove_places_;
  }

 private:
  /// An action on the folder, done before its list is read.
  using Act = std::function<Removal(const CacheFolder&)>;
  struct Listed {
    std::vector<Line> lines;
    std::optional<Removal> removed;
  };
  /// Reads the list again, in the background; after `act`, if there is one.
  void read_again(Act act = {});
  void draw_limit(const PanelContext& context, std::uint64_t bytes);
  void draw_list(const PanelContext& context, const std::vector<Line>& lines);
  /// Reports once the result of the action, or why it failed.
  void tell_result(const PanelContext& context);

  std::filesystem::path cache_;
  bool open_ = false;
  bool all_asked_ = false;     // the button that removes all was pressed once
  long reads_ = 0, told_ = 0;  // lists asked for; the last whose result was told
  Act act_;
  std::vector<std::pair<std::filesystem::path, ImVec2>> remove_places_;
  std::string limit_;  // as typed
  job::JobQueue queue_;
  job::Computed<Listed> list_;
};

}  // namespace kvloupe::window
