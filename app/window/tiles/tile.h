#pragma once

#include <imgui.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"
#include "app/request/figure_request.h"
#include "app/request/figure_service.h"
#include "app/scene/imgui_backend.h"
#include "app/session/state.h"
#include "app/session/view_catalog.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/results.h"
#include "app/window/tiles/tile_layout.h"
#include "app/window/widgets/fonts.h"

namespace kvloupe::window {

/// The inputs and the output of a tile in one frame.
struct TileContext {
  const PanelContext& panel;
  figure::Selection& selection;  // what a click changes; every tile draws the one before
  std::size_t tile = 0;          // which of the window's
};

/// The limits of the colours and of the axes of values that a picture has by itself.
struct OwnLimits {
  std::optional<std::pair<double, double>> colours, x, y;
  std::vector<figure::Axes> panels;
};

/// How a figure is drawn.
struct Look {
  double width = 0.0, height = 0.0;  // points
  double scale = 0.0;                // pixels per point
  std::optional<std::pair<double, double>> x_range, y_range, limits;
  std::vector<figure::PanelLimits> panels;
  Theme theme = Theme::light;
  figure::AmountMap amounts = figure::AmountMap::viridis;
  bool patterns = false;
  bool operator==(const Look&) const = default;
};

/// A figure, or its part so far, and its scene.
struct DrawnFigure {
  figure::MadeFigure figure;
  Look look;
  std::shared_ptr<const figure::Scene> scene;
};

/// One view on the screen: a figure computed and drawn into a scene by background jobs, shown with
/// the pointer's actions on it. The scene is made anew only when its inputs change; marks of the
/// selection and the pointer are drawn over it.
class Tile {
 public:
  Tile();
  ~Tile();
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;

  /// Draws into the current ImGui window at the cursor. Returns true when it was clicked.
  bool draw(TileState& tile, const TileContext& context, ImVec2 size, bool active);

  /// The picture alone, without the line of controls above it.
  void draw_picture(TileState& tile, const TileContext& context, ImVec2 size);

  /// The limits of the figure shown by itself; nothing without a figure.
  OwnLimits own_limits(const figure::TextMetrics& metrics) const;
  /// Replaces the picture's own limits until the next call, so that two pictures side by side can
  /// be compared. Limits that a person chose have priority.
  void share_limits(OwnLimits limits, std::vector<figure::PanelLimits> panels) {
    shared_limits_ = std::move(limits);
    shared_panels_ = std::move(panels);
  }

  /// Zooms the main axes around a place (shares of the plot's sides, 0 to 1); factor > 1 comes
  /// nearer. Pans by shares of the visible range.
  void zoom(TileState& tile, double factor, double share_x = 0.5, double share_y = 0.5) const;
  void pan(TileState& tile, double share_x, double share_y) const;
  /// Height of the line above the picture, in pixels.
  static float header_height(const Fonts& fonts);
  static void reset(TileState& tile);

  /// The picture's needs, for the layout of tiles; `unit`: pixels of the window's scale.
  TileNeed need(const TileState& tile, const figure::TextMetrics& metrics, double unit) const;

  /// Whether it was drawn in this frame or the one before.
  bool in_sight() const { return drawn_in_ >= ImGui::GetFrameCount() - 1; }
  /// No job under way, and the picture belongs to the state, or a person stopped it.
  bool settled() const;
  /// The progress of the requested picture, once it has taken long enough that a person wants to
  /// see it; else nullptr.
  std::shared_ptr<const job::JobProgress> progress() const;
  /// Ends the computation. The picture stays, and is not computed again until go_on(), or until
  /// something else is asked for.
  void stop() { picture_.stop(); }
  bool stopped() const { return error_.empty() && picture_.stopped(); }
  void go_on() { picture_.go_on(); }
  /// The place, in pixels, where the button for stop and go_on was drawn last; nothing if it was
  /// not drawn.
  const std::optional<figure::Rect>& stop_button() const { return stop_button_; }
  /// The picture shown; nullptr where there is none yet.
  std::shared_ptr<const figure::Scene> scene() const { return scene_; }
  /// The figure shown, with its settings, for export; nullptr where there is none yet.
  std::shared_ptr<const figure::MadeFigure> figure() const;
  /// The view's present request, which identifies figure().
  const request::FigureRequest& wanted() const { return wanted_.last(); }
  /// The place where the scene was drawn, in pixels.
  ImVec2 origin() const { return origin_; }
  float scale() const { return scale_; }
  const std::string& error() const { return error_; }
  /// The text beside the pointer; empty if the pointer is not over the picture.
  const std::string& readout() const { return readout_; }
  /// The places, in pixels, where the controls above the picture were drawn last.
  const std::vector<figure::Rect>& header_items() const { return header_items_; }

 private:
  void request(const TileState& tile, const TileContext& context, ImVec2 size);
  /// Takes the newest picture; draws its figure again if its look has to change.
  void take_picture(const PanelContext& context, const Look& look);
  Look look_of(const TileState& tile, const PanelContext& context, ImVec2 size) const;
  /// The request that the state asks for; nullptr, and an error to show, if it is not possible.
  const request::FigureRequest* want(const TileState& tile, const TileContext& context,
                                     const request::FigureInputs& inputs);
  void follow_results(const TileState& tile, const TileContext& context);
  void draw_header(TileState& tile, const TileContext& context, float width, bool active);
  /// Title and list of views.
  void draw_title(const TileState& tile, const TileContext& context, float width, bool active);
  /// The words over the picture while it computes or is stopped, and their button.
  struct Wait {
    std::string text, button;
    double share = 0.0;       // 0 to 1
    figure::Rect box, press;  // in pixels
  };
  std::optional<Wait> wait(const PanelContext& context, ImVec2 area) const;
  void draw_wait(const PanelContext& context, const Wait& wait, bool hovered) const;
  void interact(TileState& tile, const TileContext& context, const figure::Scene& scene);
  void select(const TileContext& context, const figure::Target& target);
  void start_drag(const TileContext& context, const figure::Scene& scene, figure::Point at);
  void go_on_dragging(TileState& tile, const TileContext& context, const figure::Scene& scene,
                      figure::Point at);
  void choose_range(const TileContext& context, const figure::Scene& scene, figure::Point at);
  void drag_limits(TileState& tile, const figure::Scene& scene);
  void draw_marks(const TileContext& context, const figure::Scene& scene) const;
  void draw_cross_hair(const TileContext& context, const figure::Scene& scene, figure::Point at);

  request::RequestMaker wanted_;
  job::Computed<DrawnFigure, request::FigureRequest> picture_;
  struct Redrawing {
    std::shared_ptr<const DrawnFigure> picture;
    Look look;
    bool operator==(const Redrawing&) const = default;
  };
  job::Computed<figure::Scene, Redrawing> redrawn_;
  std::shared_ptr<const figure::Scene> scene_;   // shown
  std::shared_ptr<const DrawnFigure> scene_of_;  // what scene_ shows
  std::shared_ptr<const DrawnFigure> shown_;     // the same, where scene_ looks as it has to
  std::string error_;
  std::string readout_;
  std::string shown_view_;
  std::string shown_trace_;  // key of the trace that this shows; empty: of none
  /// What the names chosen stand for in the results, and these in one line.
  struct ResultsShown {
    std::map<std::string, std::string> names;
    std::string source;
  };
  job::Computed<ResultsShown> results_shown_;
  std::map<std::string, std::string> drafts_;  // choice → what is being typed, or is not a value
  std::vector<figure::Rect> header_items_;
  std::optional<figure::Rect> stop_button_;
  int drawn_in_ = -2;  // the frame
  ImVec2 origin_{};
  float scale_ = 1.0F;
  std::optional<figure::Axis> full_x_, full_y_;  // the whole view's axes
  enum class Drag { none, pan, low_limit, high_limit, range } drag_ = Drag::none;
  int range_from_ = 0;  // the token where a drag for a range began
  mutable std::shared_ptr<const figure::Figure> aspect_of_;  // whose aspect is known
  mutable double aspect_ = 1.0;
  mutable std::shared_ptr<const figure::Figure> limits_of_;  // whose own limits are known
  mutable OwnLimits own_limits_;
  OwnLimits shared_limits_;
  std::vector<figure::PanelLimits> shared_panels_;
  bool dragged_ = false;
};

}  // namespace kvloupe::window
