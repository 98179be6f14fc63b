#include "app/window/tiles/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include "analysis/base/core/error.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/scene/style.h"
#include "app/session/view_catalog.h"
#include "app/window/cards/intervene.h"
#include "app/window/state/layouts.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace {
constexpr std::chrono::milliseconds kRequestRest(150);  // a hand that moves a slider has stopped
constexpr std::chrono::milliseconds kPictureRest(200);

// Figures are set in points with 8 pt text; on the screen that is 13 px.
constexpr float kPixelsPerPoint = 13.0F / 8.0F;
constexpr double kLeastTokens = 4.0;  // as near as a token axis comes
constexpr float kClickSlack = 4.0F;   // pixels the pointer may move within a click
constexpr float kThinRow = 6.0F;      // pixels at the scale 1
constexpr float kHovered = 0.6F;      // how strong the marks of a head under the pointer are

figure::DrawRequest draw_request(const Look& look, const figure::TextMetrics& metrics) {
  figure::DrawRequest draw{.style = figure::make_style(metrics, look.theme, look.patterns)};
  draw.style.amounts = look.amounts;
  draw.width = look.width;
  draw.height = look.height;
  draw.x_range = look.x_range;
  draw.y_range = look.y_range;
  draw.limits = look.limits;
  draw.panels = look.panels;
  draw.pixels_per_point = look.scale;
  return draw;
}

/// "layer 3, head 1", "layer 3" where it is of all heads; empty: of none in particular.
std::string head_in_words(const figure::Target& target) {
  if (target.layer < 0) return {};
  if (target.query_head >= 0)
    return fmt::format("layer {}, query head {}", target.layer, target.query_head);
  return target.head < 0 ? fmt::format("layer {}", target.layer)
                         : fmt::format("layer {}, head {}", target.layer, target.head);
}

/// Marks the places of a head in a picture: its curves, its cells, its dots, its row. With
/// `query_head` ≥ 0, of marks of single query heads only this one's.
void mark_head(const MarkPlace& place, int layer, int head, int query_head, ImU32 colour) {
  const auto shows = [&](const figure::Target& target) {
    const bool other_query =
        query_head >= 0 && target.query_head >= 0 && target.query_head != query_head;
    // Does not mark each of its tokens or steps, if a figure shows these.
    return target.token < 0 && target.step < 0 && target.layer == layer && target.head == head &&
           !other_query;
  };
  for (const figure::PickLine& line : place.scene.lines) {
    if (shows(line.target)) along(place, line, colour);
  }
  for (const figure::PickRegion& region : place.scene.regions) {
    if (!shows(region.target)) continue;
    // A row that is thinner than the outline is pointed at: its data stay in sight.
    const bool is_thin =
        static_cast<float>(region.rect.height) * place.scale < kThinRow * place.ui_scale;
    if (is_thin && region.rect.width > 10.0 * region.rect.height) {
      side_marks(place, region.rect, region.rect.centre().y, colour);
    } else {
      outline(place, region.rect, colour);
    }
  }
  for (const figure::Axes& axes : place.scene.axes) {
    if (axes.x.meaning != figure::AxisMeaning::head || axes.y.meaning != figure::AxisMeaning::layer)
      continue;
    const figure::Point low = axes.to_page(head, layer);
    const figure::Point high = axes.to_page(head + 1, layer + 1);
    outline(place, {low.x, low.y, high.x - low.x, high.y - low.y}, colour);
  }
}

/// A bar of colours has a value at its side, nothing along x, and is narrow.
bool is_colour_bar(const figure::Axes& axes) {
  constexpr double kWidest = 12.0;  // points
  return axes.y.meaning == figure::AxisMeaning::value &&
         axes.x.meaning == figure::AxisMeaning::value && axes.x.label.empty() &&
         axes.plot.width < kWidest;
}

const figure::Axes* colour_bar(const figure::Scene& scene) {
  const auto found = std::find_if(scene.axes.begin(), scene.axes.end(), is_colour_bar);
  return found == scene.axes.end() ? nullptr : &*found;
}

/// The axes that the wheel and the pointer move; nullptr if the picture has none.
const figure::Axes* main_axes(const figure::Scene& scene) {
  const auto found = std::find_if_not(scene.axes.begin(), scene.axes.end(), is_colour_bar);
  return found == scene.axes.end() ? nullptr : &*found;
}

/// The axes under the pointer: those of a plot, of the strip above a map, or of a column beside it.
const figure::Axes* axes_under(const figure::Scene& scene, figure::Point at) {
  const auto found = std::find_if(
      scene.axes.begin(), scene.axes.end(),
      [&](const figure::Axes& axes) { return !is_colour_bar(axes) && axes.plot.contains(at); });
  return found == scene.axes.end() ? nullptr : &*found;
}

/// The segment whose name above a plot of tokens, or whose piece of the band there, is at this
/// place; empty: none.
std::string segment_at(const figure::Scene& scene, const TokenTable& table, figure::Point at) {
  constexpr double kBand = 7.0;  // points
  const figure::Axes* axes = main_axes(scene);
  if (!axes || axes->x.meaning != figure::AxisMeaning::token || at.y >= axes->plot.y) return {};
  const auto known = [&](const std::string& name) {
    const auto& names = table.segment_names;
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const figure::Item& item : scene.items) {
    const auto* text = std::get_if<figure::Text>(&item);
    if (text == nullptr || !text->bounds().contains(at)) continue;
    // Neighbours have their names in one line: "question · answer".
    const std::string between = " · ";
    const std::size_t middle = text->text.find(between);
    std::string name = text->text.substr(0, middle);
    if (middle != std::string::npos && at.x > text->bounds().centre().x)
      name = text->text.substr(middle + between.size());
    if (known(name)) return name;
  }
  const auto token = static_cast<std::size_t>(std::max(0.0, axes->to_data(at).x));
  const bool in_band = at.y > axes->plot.y - kBand && at.x >= axes->plot.x &&
                       at.x < axes->plot.right() && token < table.segment.size();
  return in_band ? table.segment_names[table.segment[token]] : std::string();
}

/// Whether two plots show the same tokens along x.
bool share_tokens(const figure::Axes& a, const figure::Axes& b) {
  return a.x.meaning == figure::AxisMeaning::token && b.x.meaning == a.x.meaning &&
         a.x.first == b.x.first && a.x.last == b.x.last && a.plot.x == b.plot.x &&
         a.plot.width == b.plot.width;
}

bool counts_cells(const figure::Axis& axis) {
  return axis.meaning != figure::AxisMeaning::value || !axis.names.empty();
}

/// The part of `axis` seen after zooming by `factor` around a share of it, kept inside `full`.
std::pair<double, double> zoomed(const figure::Axis& axis, const figure::Axis& full, double factor,
                                 double share) {
  const double span = axis.last - axis.first;
  double wanted = span / factor;
  const double whole = full.last - full.first;
  if (std::abs(wanted) > std::abs(whole)) wanted = whole;
  if (counts_cells(axis) && std::abs(wanted) < kLeastTokens)
    wanted = std::copysign(kLeastTokens, span);
  if (std::abs(wanted) > std::abs(whole)) wanted = whole;
  const double first = axis.first + share * (span - wanted);
  return {first, first + wanted};
}

/// `range` moved, not shrunk, so that it lies inside `full`.
std::pair<double, double> inside(std::pair<double, double> range, const figure::Axis& full) {
  const double low = std::min(full.first, full.last);
  const double high = std::max(full.first, full.last);
  const double shift = std::max(0.0, low - std::min(range.first, range.second)) -
                       std::max(0.0, std::max(range.first, range.second) - high);
  return {range.first + shift, range.second + shift};
}

/// The token under a point, kept inside the trace.
int token_at(const figure::Axes& axes, figure::Point at, const TileContext& context) {
  const TracePointer trace = context.panel.results.trace();
  const double x = std::clamp(at.x, axes.plot.x, axes.plot.right() - 1e-6);
  return std::clamp(static_cast<int>(axes.to_data({x, at.y}).x), 0,
                    trace ? trace->length() - 1 : 0);
}

bool is_whole(const std::pair<double, double>& range, const figure::Axis& full) {
  const double slack = 1e-6 * std::abs(full.last - full.first);
  return std::abs(range.first - full.first) <= slack && std::abs(range.second - full.last) <= slack;
}

}  // namespace

Tile::Tile() = default;
Tile::~Tile() = default;

std::shared_ptr<const figure::MadeFigure> Tile::figure() const {
  const auto picture = picture_.whole();
  return picture ? std::shared_ptr<const figure::MadeFigure>(picture, &picture->figure) : nullptr;
}

bool Tile::settled() const {
  return !error_.empty() || picture_.stopped() || (shown_ && shown_ == picture_.whole());
}

void Tile::reset(TileState& tile) {
  tile.x_range.reset();
  tile.y_range.reset();
}

TileNeed Tile::need(const TileState& tile, const figure::TextMetrics& metrics, double unit) const {
  constexpr double kNominalWidth = 300.0;  // points
  const figure::FigureInfo* view = find_view(tile.view);
  if (!view) return {};
  TileNeed need =
      with_least_room({view->aspect, view->zoom == figure::Zoom::linked}, view->aspect, unit);
  if (shown_view_ != tile.view) return need;
  const auto picture = picture_.value();
  if (picture && picture->figure.figure != aspect_of_) {
    aspect_of_ = picture->figure.figure;
    figure::DrawRequest request{.style = figure::make_style(metrics), .width = kNominalWidth};
    const double height = aspect_of_->natural_height(request);
    aspect_ = height > 0.0 ? kNominalWidth / height : need.aspect;
  }
  if (aspect_of_) need.aspect = aspect_;  // of the trace before, until this one's is there
  return need;
}

OwnLimits Tile::own_limits(const figure::TextMetrics& metrics) const {
  const figure::FigureInfo* view = find_view(shown_view_);
  const auto picture = picture_.value();
  if (!view || !picture) return {};
  if (picture->figure.figure == limits_of_) return own_limits_;
  limits_of_ = picture->figure.figure;
  figure::DrawRequest request{.style = figure::make_style(metrics)};
  request.pixels_per_point = 0.25;  // nobody sees it
  const figure::Scene scene = limits_of_->draw(request);
  own_limits_ = {};
  std::remove_copy_if(scene.axes.begin(), scene.axes.end(), std::back_inserter(own_limits_.panels),
                      is_colour_bar);
  if (const figure::Axes* bar = colour_bar(scene); bar && view->limits)
    own_limits_.colours =
        std::pair(std::min(bar->y.first, bar->y.last), std::max(bar->y.first, bar->y.last));
  const figure::Axes* axes = main_axes(scene);
  if (!axes || view->zoom != figure::Zoom::both) return own_limits_;
  if (!counts_cells(axes->x)) own_limits_.x = {axes->x.first, axes->x.last};
  if (!counts_cells(axes->y)) own_limits_.y = {axes->y.first, axes->y.last};
  return own_limits_;
}

void Tile::zoom(TileState& tile, double factor, double share_x, double share_y) const {
  const figure::FigureInfo* view = find_view(tile.view);
  const auto scene = scene_;
  const figure::Axes* main = scene ? main_axes(*scene) : nullptr;
  if (!main || !view || view->zoom == figure::Zoom::none || !full_x_) return;
  const figure::Axes& axes = *main;
  tile.x_range = inside(zoomed(axes.x, *full_x_, factor, share_x), *full_x_);
  if (view->zoom != figure::Zoom::x) {
    tile.y_range = inside(zoomed(axes.y, *full_y_, factor, share_y), *full_y_);
  }
  const bool whole =
      is_whole(*tile.x_range, *full_x_) && (!tile.y_range || is_whole(*tile.y_range, *full_y_));
  if (whole) reset(tile);
}

void Tile::pan(TileState& tile, double share_x, double share_y) const {
  const figure::FigureInfo* view = find_view(tile.view);
  const auto scene = scene_;
  const figure::Axes* main = scene ? main_axes(*scene) : nullptr;
  if (!main || !view || view->zoom == figure::Zoom::none || !full_x_) return;
  if (!tile.x_range && !tile.y_range) return;  // the whole is in sight
  const auto moved = [](const std::optional<std::pair<double, double>>& range,
                        const figure::Axis& axis, const figure::Axis& full, double share) {
    const auto now = range.value_or(std::pair{axis.first, axis.last});
    const double by = share * (now.second - now.first);
    return inside({now.first + by, now.second + by}, full);
  };
  tile.x_range = moved(tile.x_range, main->x, *full_x_, share_x);
  if (view->zoom != figure::Zoom::x) {
    tile.y_range = moved(tile.y_range, main->y, *full_y_, share_y);
  }
}

const request::FigureRequest* Tile::want(const TileState& tile, const TileContext& context,
                                         const request::FigureInputs& inputs) {
  const figure::FigureInfo& info = *find_view(tile.view);
  if (needs_of(info, tile.choices).side() && tile.side == PolicySide::b &&
      !context.panel.state.policy_b_on) {
    error_ = "This view shows policy B, which is off. Switch policy B on (B).";
    return nullptr;
  }
  request::FigureSettings settings = settings_of(context.panel.state, tile);
  settings.choose_policy_b = false;
  try {
    if (const TracePointer trace = context.panel.results.trace()) {
      const int steps = static_cast<int>(context.panel.results.blocks(context.panel.state).size());
      settings.step = std::min(context.panel.shown.step(), steps - 1);
      if (context.panel.state.selection.token >= trace->length()) settings.token.reset();
    }
    const request::FigureRequest& request = wanted_.make(info, settings, inputs);
    error_ = missing_input(info, request);
    return error_.empty() ? &request : nullptr;
  } catch (const UsageError& error) {
    error_ = error.what();
    return nullptr;
  }
}

Look Tile::look_of(const TileState& tile, const PanelContext& context, ImVec2 size) const {
  Look look{.width = std::max(1.0F, std::floor(size.x) / scale_),
            .height = std::max(1.0F, std::floor(size.y) / scale_),
            .scale = scale_,
            .x_range = tile.x_range ? tile.x_range : shared_limits_.x,
            .y_range = tile.y_range ? tile.y_range : shared_limits_.y,
            .limits = tile.limits ? tile.limits : shared_limits_.colours,
            .panels = shared_panels_,
            .theme = context.state.theme,
            .amounts = context.state.amounts,
            .patterns = shows_patterns(context.state)};
  return look;
}

void Tile::request(const TileState& tile, const TileContext& context, ImVec2 size) {
  const figure::FigureInfo* view = find_view(tile.view);
  error_.clear();
  if (!view) return;
  Results& results = context.panel.results;
  const request::FigureInputs inputs = results.inputs(*view);
  if (inputs.traces.empty() && !inputs.evaluation) return;
  // A picture that is not yet replaced would pass for one of the new trace.
  const std::string trace = view->needs.most_traces > 0 ? results.trace_key() : std::string();
  if (shown_view_ != tile.view || shown_trace_ != trace) {
    picture_.clear();
    redrawn_.clear();
    scene_.reset();
    scene_of_.reset();
    full_x_.reset();
    full_y_.reset();
    shown_trace_ = trace;
  }
  if (shown_view_ != tile.view) {
    drafts_.clear();
    aspect_of_.reset();
    shown_view_ = tile.view;
  }
  const request::FigureRequest* wanted = want(tile, context, inputs);
  if (!wanted) return;
  const figure::FigureInfo& info = *view;
  const figure::Needs needs = needs_of(info, wanted->choices);
  const Look look = look_of(tile, context.panel, size);
  const figure::DrawRequest draw = draw_request(look, context.panel.metrics);
  request::Meanwhile meanwhile;
  meanwhile.layer = tile.pinned ? tile.pinned->layer : context.panel.state.selection.layer;
  meanwhile.head = tile.pinned ? tile.pinned->head : context.panel.state.selection.head;
  // While a hand drags a control, each picture begun is shown: a newer request would else cancel
  // the one before in every frame, and nothing new be seen until the hand rests.
  const bool dragged = same_subject(picture_.key(), *wanted);
  if (const auto held = picture_.held(); held.value && same_subject(held.key, *wanted))
    meanwhile.shown = held.value->figure.figure;
  picture_.request(
      needs.slow()       ? results.comparing()
      : needs.all_layers ? results.all_layers()
                         : results.quick(),
      *wanted,
      [&info, request = *wanted, inputs, meanwhile, look, draw, service = results.figures()](
          Progress& progress, const auto& publish) {
        const std::string reason = request::unavailable(info, inputs);
        if (!reason.empty()) throw WorkError(reason);
        const auto drawn = [&](figure::MadeFigure made) {
          auto scene = std::make_shared<const figure::Scene>(made.figure->draw(draw));
          return DrawnFigure{std::move(made), look, std::move(scene)};
        };
        request::Meanwhile looking = meanwhile;
        looking.on_part = [&](figure::MadeFigure part) { publish(drawn(std::move(part))); };
        return drawn(service->make(info, request, inputs, progress, looking));
      },
      dragged ? kRequestRest : std::chrono::milliseconds(0),
      job::Computed<DrawnFigure, request::FigureRequest>::Until::end);
  take_picture(context.panel, look);
}

void Tile::take_picture(const PanelContext& context, const Look& look) {
  error_ = picture_.error();
  const auto picture = picture_.value();
  shown_ = nullptr;
  if (!picture || !error_.empty()) return;
  if (picture->look == look) {
    scene_ = picture->scene;
    shown_ = scene_of_ = picture;
    return;
  }
  // During a pan or a zoom only the drawing is repeated, with the same numbers.
  redrawn_.request(
      context.results.quick(), {picture, look},
      [picture, draw = draw_request(look, context.metrics)](Progress&, const auto&) {
        return picture->figure.figure->draw(draw);
      },
      kPictureRest);
  error_ = redrawn_.error();
  if (const auto redrawn = redrawn_.held(); redrawn.value && redrawn.key.picture == picture) {
    scene_ = redrawn.value;
    scene_of_ = picture;
    if (redrawn.key == redrawn_.key()) shown_ = picture;
  }
}

bool Tile::draw(TileState& tile, const TileContext& context, ImVec2 size, bool active) {
  float header = header_height(context.panel.fonts);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  follow_results(tile, context);
  draw_header(tile, context, size.x, active);
  if (const auto shown = results_shown_.value(); shown && !results_shown_.key().empty()) {
    // Which results: the panels beside may be of another model's trace.
    constexpr double kTextSize = 13.0;
    const PanelContext& c = context.panel;
    const float padding = ImGui::GetStyle().FramePadding.x;
    ImGui::SetCursorScreenPos({corner.x + padding, corner.y + header});
    ImGui::PushFont(c.fonts.secondary);
    ImGui::TextDisabled("%s",
                        c.metrics
                            .fit(shown->source, figure::Font::regular, kTextSize,
                                 static_cast<double>((size.x - 2 * padding) / c.fonts.scale()))
                            .c_str());
    help_tooltip(c.fonts, shown->source);
    ImGui::PopFont();
    header += c.fonts.secondary->FontSize + c.px(4);
  }

  ImGui::SetCursorScreenPos({corner.x, corner.y + header});
  draw_picture(tile, context, {size.x, size.y - header});
  return ImGui::IsItemActivated();
}

void Tile::draw_picture(TileState& tile, const TileContext& context, ImVec2 size) {
  scale_ = kPixelsPerPoint * context.panel.fonts.scale();
  drawn_in_ = ImGui::GetFrameCount();
  readout_.clear();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  origin_ = {std::floor(corner.x), std::floor(corner.y)};
  const ImVec2 area{std::max(1.0F, size.x), std::max(1.0F, size.y)};
  request(tile, context, area);
  // Before the picture, which else would take the click.
  const std::optional<Wait> waits = wait(context.panel, area);
  bool over_button = false;
  stop_button_.reset();
  if (waits) {
    const figure::Rect& press = waits->press;
    stop_button_ = press;
    ImGui::SetCursorScreenPos({static_cast<float>(press.x), static_cast<float>(press.y)});
    if (ImGui::InvisibleButton("##stop",
                               {static_cast<float>(press.width), static_cast<float>(press.height)}))
      stopped() ? go_on() : stop();
    over_button = ImGui::IsItemHovered();
    help_tooltip(context.panel.fonts, stopped()
                                          ? "Computes the picture (Ctrl .)"
                                          : "Ends the computation; what is drawn stays (Ctrl .)");
  }
  ImGui::SetCursorScreenPos(origin_);
  ImGui::InvisibleButton("##picture", area);

  const WindowColours& colours = window_colours(context.panel.state.theme);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect(origin_, {origin_.x + area.x, origin_.y + area.y}, true);
  if (!error_.empty()) {
    list.AddText(
        context.panel.fonts.text, context.panel.fonts.text->FontSize,
        {origin_.x + 8 * context.panel.fonts.scale(), origin_.y + 8 * context.panel.fonts.scale()},
        colours.secondary, error_.c_str(), nullptr, area.x - 16 * context.panel.fonts.scale());
  } else if (const auto scene = scene_) {
    if (const figure::Axes* main = main_axes(*scene); main && shown_) {
      if (!tile.x_range) full_x_ = main->x;
      if (!tile.y_range) full_y_ = main->y;
    }
    context.panel.backend.draw(*scene, list, origin_.x, origin_.y, scale_, false);
    interact(tile, context, *scene);
    draw_marks(context, *scene);
  }
  if (waits) draw_wait(context.panel, *waits, over_button);
  list.PopClipRect();
}

void Tile::interact(TileState& tile, const TileContext& context, const figure::Scene& scene) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool over = ImGui::IsItemHovered();
  const figure::Point at{(io.MousePos.x - origin_.x) / scale_,
                         (io.MousePos.y - origin_.y) / scale_};
  const figure::Axes* axes = main_axes(scene);
  const figure::Axes* bar = colour_bar(scene);
  const figure::FigureInfo* view = find_view(tile.view);

  if (ImGui::IsItemActivated()) start_drag(context, scene, at);
  if (ImGui::IsItemActive()) go_on_dragging(tile, context, scene, at);
  if (ImGui::IsItemDeactivated() && drag_ == Drag::range && dragged_)
    choose_range(context, scene, at);
  if (over && ImGui::IsMouseDoubleClicked(0)) {
    if (drag_ == Drag::pan) {
      reset(tile);
    } else {
      tile.limits.reset();
    }
  }
  const figure::Axes* under = axes_under(scene, at);
  if (over && io.MouseWheel != 0.0F && under && (under == axes || share_tokens(*axes, *under))) {
    const double share_x = (at.x - axes->plot.x) / axes->plot.width;
    const double share_y = (at.y - axes->plot.y) / axes->plot.height;
    // From the strip above a map one zooms along the map's diagonal.
    zoom(tile, std::pow(1.25, io.MouseWheel), share_x, under == axes ? share_y : share_x);
  }
  if (!over || (ImGui::IsItemActive() && dragged_)) return;

  if (const TracePointer trace = context.panel.results.trace()) {
    if (const std::string name = segment_at(scene, trace->tokens(), at); !name.empty()) {
      help_tooltip(context.panel.fonts, "Click to follow the segment " + name);
      if (ImGui::IsItemDeactivated() && drag_ == Drag::pan)
        return follow_tokens(context.panel, name);
    }
  }
  const auto target = scene.pick(at);
  if (target) {
    context.panel.hover.token = target->token;
    context.panel.hover.other_token = target->other_token;
    context.panel.hover.step = target->step;
    if (target->layer >= 0 && target->head >= 0) {
      context.panel.hover.layer = target->layer;
      context.panel.hover.head = target->head;
    }
  }
  if (under) draw_cross_hair(context, scene, at);
  if (bar && view->limits && at.x >= bar->plot.x - 2)
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeNS);
  if (target && ImGui::IsItemDeactivated() && !dragged_ && drag_ == Drag::pan) {
    select(context, *target);
    if (target->token >= 0) context.panel.ask(ExplainToken{io.MousePos});
    if (target->run >= 0) {
      const EvaluationPointer shown = context.panel.results.inputs(*view).evaluation;
      context.panel.ask(ExplainRun{shown, target->run, io.MousePos});
    }
  }
}

void Tile::select(const TileContext& context, const figure::Target& target) {
  figure::Selection& at = context.selection;
  const TracePointer trace = context.panel.results.trace();
  const int layers = trace ? trace->model().num_layers : 0;
  // Results may be of another model.
  if (trace && (target.layer >= layers || target.head >= trace->most_heads())) {
    return context.panel.ask(Say{fmt::format(
        "The open trace does not have {}: it has {} layers of up to {} heads. Open a trace of the "
        "model of these results to select this head.",
        target.head < 0 ? fmt::format("layer {}", target.layer)
                        : fmt::format("layer {}, head {}", target.layer, target.head),
        layers, trace->most_heads())});
  }
  if (target.token >= 0) at.token = target.token;
  if (target.step >= 0) at.step = target.step;
  if (target.layer >= 0) at.layer = target.layer;
  if (target.head >= 0) at.head = target.head;
  // A person who looks at the mean over the query heads goes on to do so.
  if (target.query_head >= 0 && at.query_head >= 0) at.query_head = target.query_head;
  // Before anything else of this frame is drawn.
  if (trace) keep_in_range(at, *trace, context.panel.shown.step_count());
}

void Tile::start_drag(const TileContext& context, const figure::Scene& scene, figure::Point at) {
  const figure::Axes* axes = main_axes(scene);
  const figure::Axes* bar = colour_bar(scene);
  drag_ = Drag::pan;
  dragged_ = false;
  if (bar && find_view(shown_view_)->limits && at.x >= bar->plot.x - 2 && at.y >= bar->plot.y - 4 &&
      at.y <= bar->plot.bottom() + 4) {
    drag_ = at.y < bar->plot.centre().y ? Drag::high_limit : Drag::low_limit;
  } else if (ImGui::GetIO().KeyShift && axes && axes->x.meaning == figure::AxisMeaning::token) {
    drag_ = Drag::range;
    range_from_ = token_at(*axes, at, context);
  }
}

void Tile::go_on_dragging(TileState& tile, const TileContext& context, const figure::Scene& scene,
                          figure::Point at) {
  const ImVec2 moved = ImGui::GetMouseDragDelta(0, 0.0F);
  dragged_ |= std::abs(moved.x) > kClickSlack || std::abs(moved.y) > kClickSlack;
  const figure::Axes* axes = main_axes(scene);
  if (!dragged_ || !axes) return;
  const ImVec2 by = ImGui::GetIO().MouseDelta;
  switch (drag_) {
    case Drag::pan:
      pan(tile, -by.x / scale_ / axes->plot.width, -by.y / scale_ / axes->plot.height);
      break;
    case Drag::low_limit:
    case Drag::high_limit:
      drag_limits(tile, scene);
      break;
    case Drag::range: {
      const int to = token_at(*axes, at, context);
      const figure::Point low = axes->to_page(std::min(range_from_, to), 0);
      const figure::Point high = axes->to_page(std::max(range_from_, to) + 1, 0);
      ImDrawList& list = *ImGui::GetWindowDrawList();
      const WindowColours& colours = window_colours(context.panel.state.theme);
      const ImVec2 from{origin_.x + static_cast<float>(low.x) * scale_,
                        origin_.y + static_cast<float>(axes->plot.y) * scale_};
      const ImVec2 end{origin_.x + static_cast<float>(high.x) * scale_,
                       origin_.y + static_cast<float>(axes->plot.bottom()) * scale_};
      list.AddRectFilled(from, end, faded(colours.selection, 0.2F));
      list.AddRect(from, end, colours.selection);
      label(context.panel.fonts, list, {end.x, from.y + 24 * context.panel.fonts.scale()},
            tokens_text(std::min(range_from_, to), std::max(range_from_, to)), colours,
            {origin_.x + static_cast<float>(scene.width) * scale_, origin_.y});
      break;
    }
    case Drag::none:
      break;
  }
}

void Tile::choose_range(const TileContext& context, const figure::Scene& scene, figure::Point at) {
  const figure::Axes* axes = main_axes(scene);
  if (!axes) return;
  const int to = token_at(*axes, at, context);
  context.selection.first_token = std::min(range_from_, to);
  context.selection.last_token = std::max(range_from_, to);
}

void Tile::drag_limits(TileState& tile, const figure::Scene& scene) {
  const figure::Axes* bar = colour_bar(scene);
  if (!bar || bar->plot.height <= 0) return;
  // The pointer carries the value that was under it: the bar is stretched, its other end stays.
  const figure::Axis& axis = bar->y;  // first at the top
  const double by = ImGui::GetIO().MouseDelta.y / scale_ / bar->plot.height;
  if (by == 0.0) return;
  double low = std::min(axis.first, axis.last);
  double high = std::max(axis.first, axis.last);
  const auto value = [&](double share) {  // 0: low, 1: high
    return axis.scale == figure::AxisScale::log ? low * std::pow(high / low, share)
                                                : low + share * (high - low);
  };
  if (drag_ == Drag::high_limit) {
    high = value(1.0 + by);
  } else {
    low = value(by);
  }
  if (high > low && std::isfinite(low) && std::isfinite(high)) tile.limits = {low, high};
}

void Tile::draw_marks(const TileContext& context, const figure::Scene& scene) const {
  const WindowColours& colours = window_colours(context.panel.state.theme);
  const figure::Selection& at = context.panel.state.selection;
  const MarkPlace place{scene, origin_, scale_, context.panel.fonts.scale()};
  if (at.token >= 0) draw_mark(place, {.token = at.token}, colours.ink, 0.6F);
  if (const figure::Axes* axes = main_axes(scene);
      axes && axes->y.meaning == figure::AxisMeaning::step) {
    const double y = axes->to_page(0, context.panel.shown.step() + 0.5).y;
    if (y >= axes->plot.y && y <= axes->plot.bottom()) {
      side_marks(place, axes->plot, y, colours.selection);
    }
  }
  const Hover& hovered = context.panel.hovered;
  if (hovered.head >= 0) {
    mark_head(place, hovered.layer, hovered.head, -1, faded(colours.selection, kHovered));
  }
  if (const TileState* pinned = pinned_tile(context.panel.state)) {
    mark_head(place, pinned->pinned->layer, pinned->pinned->head, -1, faded(colours.ink, kHovered));
  }
  mark_head(place, at.layer, at.head, at.query_head, colours.selection);
  if (hovered.token >= 0) draw_mark(place, {.token = hovered.token}, colours.selection, 1.0F);
  if (hovered.other_token >= 0) {
    draw_mark(place, {.other_token = hovered.other_token}, colours.selection, 0.6F);
  }
}

void Tile::draw_cross_hair(const TileContext& context, const figure::Scene& scene,
                           figure::Point at) {
  const figure::Axes& axes = *axes_under(scene, at);
  const WindowColours& colours = window_colours(context.panel.state.theme);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto pixel = [&](double x, double y) {
    return ImVec2{std::floor(origin_.x + static_cast<float>(x) * scale_) + 0.5F,
                  std::floor(origin_.y + static_cast<float>(y) * scale_) + 0.5F};
  };
  const ImU32 line = faded(colours.selection, 0.8F);
  list.AddLine(pixel(at.x, at.y), pixel(at.x, axes.plot.bottom()), line);
  list.AddLine(pixel(axes.plot.x, at.y), pixel(at.x, at.y), line);

  const figure::Point data = axes.to_data(at);
  const auto text = [](const figure::Axis& axis, double value) -> std::string {
    using Meaning = figure::AxisMeaning;
    const auto cell = static_cast<std::size_t>(std::max(0.0, value));
    if (cell < axis.names.size()) return axis.names[cell];
    if (!counts_cells(axis)) return three_digits(value);
    // Two bare numbers could be anything.
    const char* what = axis.meaning == Meaning::token   ? "token "
                       : axis.meaning == Meaning::step  ? "step "
                       : axis.meaning == Meaning::layer ? "layer "
                       : axis.meaning == Meaning::head  ? "head "
                                                        : "";
    return what + count_text(static_cast<long>(std::floor(value)));
  };
  std::string readout = text(axes.x, data.x) + ", " + text(axes.y, data.y);
  if (const auto target = scene.pick(at)) {
    if (const std::string head = head_in_words(*target); !head.empty()) {
      const bool has_layer = axes.y.meaning == figure::AxisMeaning::layer;
      const bool is_cell =
          has_layer && (axes.x.meaning == figure::AxisMeaning::head || target->query_head >= 0);
      if (is_cell) {
        readout = head;
      } else if (!has_layer || target->head >= 0) {
        readout = head + ": " + readout;
      }
    }
    const std::string value = scene_of_ ? scene_of_->figure.figure->value_text(*target) : "";
    if (!value.empty()) readout += "  " + value;
  }
  readout_ = readout;
  if (ImGui::CalcTextSize(readout.c_str()).x > static_cast<float>(axes.plot.right()) * scale_)
    return help_tooltip(context.panel.fonts, readout, true);  // no room left of the pointer
  label(context.panel.fonts, list, pixel(at.x, at.y), readout, colours,
        pixel(axes.plot.right(), axes.plot.y));
}

}  // namespace kvloupe::window
