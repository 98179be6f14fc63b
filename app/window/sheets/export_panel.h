#pragma once

#include <string>

#include "app/document/figure_file.h"
#include "app/job/computed.h"
#include "app/window/state/recent_files.h"
#include "app/window/tiles/tile.h"

namespace kvloupe::window {

struct PanelContext;
struct Preferences;

/// A sheet to write the active view to a file: format, size, text, theme, colours, additional
/// files, path; and the page as it will be. Computed and written by background jobs.
class ExportPanel {
 public:
  void open(const PanelContext& context);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  void draw(const PanelContext& context, const Tile& tile);

  void take(const Preferences& preferences);
  void give(Preferences& preferences) const;
  /// The page as it will be; nullptr until it is there.
  std::shared_ptr<const figure::Scene> preview() const { return preview_.value(); }
  bool previewing() const { return open_ && preview_.computing(); }

 private:
  figure::FileOptions file_options(const PanelContext& context) const;
  std::string target() const;
  void draw_controls(const PanelContext& context, const Tile& tile);
  void draw_look(const PanelContext& context);
  void draw_preview(const PanelContext& context);
  void request_preview(const PanelContext& context, const Tile& tile);
  void copy_command(const PanelContext& context, const Tile& tile);
  void write(const PanelContext& context, const Tile& tile);

  bool open_ = false;
  bool appeared_ = false;
  bool waits_ = false;  // Export was pressed before the picture was ready
  int format_ = 0;
  int size_ = 0;
  figure::FileOptions look_;  // without what the tile and the size say
  std::string path_;
  WrittenFiles written_;
  struct PreviewKey {
    request::FigureRequest figure;
    figure::FileOptions options;
    bool operator==(const PreviewKey&) const = default;
  };
  job::Computed<figure::Scene, PreviewKey> preview_;
};

}  // namespace kvloupe::window
