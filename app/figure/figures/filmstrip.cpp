// The cache as a film strip: tokens along x, steps downwards.

#include "analysis/math/sink.h"
#include "app/figure/figures/figures.h"
#include "app/figure/head_sink.h"
#include "app/figure/segment_band.h"
#include "app/figure/token_state.h"
#include "app/plot/map_margin.h"
#include "app/plot/text_flow.h"

namespace kvloupe::figure::filmstrip_figure {

namespace {

constexpr TokenState kAbsent = TokenState::ahead;  // of a cell: not in the cache, or no longer

class Filmstrip final : public Figure {
 public:
  Selection selection;
  int tokens = 0;
  int steps = 0;
  int prompt_steps = 0;
  Reach reach;  // of the layer's queries
  std::vector<Block> blocks;
  std::vector<TokenState> cells;  // [S,T]
  std::vector<std::uint8_t>
      ranks;  // [S,T] share of the score's place, 255 the highest; 255 without scores
  GivenTokens given;
  SegmentBand segments;
  bool scored = false;
  bool any_shield = false;
  bool any_merged = false;
  bool any_synthetic = false;
  double sink = 0.0;  // the mean attention token 0 receives, where it is a sink in this head

  /// How many times as high a prompt's row is as a generated token's, so that the few steps of a
  /// prompt are seen beside many of one token: up to two fifths of the height.
  double prompt_weight() const {
    constexpr double wanted_share = 0.4;
    constexpr double most = 24.0;
    const int generated = steps - prompt_steps;
    if (prompt_steps == 0 || generated == 0) return 1.0;
    return std::clamp(wanted_share / (1.0 - wanted_share) * generated / prompt_steps, 1.0, most);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const auto [x0, x1] = request.x_range.value_or(
        std::pair<double, double>(selection.first_token, selection.last_token + 1.0));
    const auto [y0, y1] = request.y_range.value_or(std::pair<double, double>(0.0, steps));
    Axes axes;
    axes.x = {AxisMeaning::token, AxisScale::linear, x0, x1, "Token"};
    axes.y = {AxisMeaning::step, AxisScale::linear, y0, y1, "Step"};
    if (const double weight = prompt_weight();
        weight > 1.0 && y0 < prompt_steps && prompt_steps < y1) {
      const double above = weight * (prompt_steps - y0);
      axes.y.knee = prompt_steps;
      axes.y.knee_share = above / (above + y1 - prompt_steps);
    }
    double top = 2.0;
    if (request.legend)
      top += add_legend(scene, style, {2.0, top}, request.width - 4.0, legend(style)) + 2.0;
    double band = segments.height(style, false);
    const AxisLook x_look = axis_look(style, axes.x, request.width - 40.0, true);
    const double inset = sink > 0.0 ? sink_columns_room(1) : 0.0;
    AxisLook y_look;
    double left = 0.0;
    const auto lay_out = [&] {
      const double height =
          std::max(10.0, request.height - top - band - bottom_margin(style, axes.x, x_look) - 2.0);
      y_look = axis_look(style, axes.y, height, false);
      left = 2.0 + left_margin(style, axes.y, y_look) + inset;
      axes.plot = {left, top + band, std::max(10.0, request.width - left - 2.0 - style.small),
                   height};
    };
    lay_out();
    Axes all = axes;
    all.x.first = selection.first_token;
    all.x.last = selection.last_token + 1.0;
    const bool two_rows =
        axes.plot.height > 8.0 * style.small && segments.needs_two_rows(style, all);
    if (two_rows) {
      band = segments.height(style, true);
      lay_out();
    }

    add_strip(scene, style, axes, request.pixels_per_point);
    segments.draw(scene, style, axes, two_rows);
    if (inset == 0.0) {
      add_axes(scene, style, axes, x_look, y_look);
    } else {
      AxisLook bare;
      bare.labels = bare.line = false;
      add_axes(scene, style, axes, x_look, bare);
      add_sink(scene, style, axes, left - inset, y_look, request.pixels_per_point);
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"step", "token", "state", "protected", "score_rank"});
    for (long s = 0; s < steps; ++s) {
      for (long t = selection.first_token; t <= selection.last_token; ++t) {
        const std::size_t i = index(static_cast<int>(s), static_cast<int>(t));
        if (cells[i] == kAbsent) continue;
        const bool shield = cells[i] == TokenState::protected_;
        csv.row({s, t, state_name(shield ? TokenState::retained : cells[i]), shield,
                 scored ? ranks[i] / 255.0 : std::nan("")});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < 0 || target.step < 0 || target.token >= tokens || target.step >= steps)
      return {};
    const std::size_t i = index(target.step, target.token);
    if (is_kept(cells[i])) return state_name(cells[i]);
    if (cells[i] != kAbsent) return std::string(state_name(cells[i])) + " at this step";
    if (blocks[static_cast<std::size_t>(target.step)].end <= target.token) return "not yet read";
    return target.token < first_token(target.step) ? fmt::format("beyond the {}", reach.name())
                                                   : "gone";
  }

 private:
  /// The cells of the axes' tokens with all their marks.
  void add_strip(Scene& scene, const Style& style, const Axes& axes, double density) const {
    scene.add(PushClip{axes.plot});
    if (axes.y.knee) {
      add_cells(scene, style, axes, axes.y.first, *axes.y.knee, density);
      add_cells(scene, style, axes, *axes.y.knee, axes.y.last, density);
      add_knee(scene, style, axes);
    } else {
      add_cells(scene, style, axes, axes.y.first, axes.y.last, density);
    }
    add_open_cells(scene, style, axes);
    if (style.patterns) add_patterns(scene, style, axes);
    add_block_lines(scene, style, axes);
    add_shields(scene, style, axes);
    add_ticks(scene, style, axes);
    add_window_edge(scene, style, axes);
    scene.add(PopClip{});
  }

  /// Token 0's own column, wide enough to be seen, left of the strip, with the y axis.
  void add_sink(Scene& scene, const Style& style, const Axes& of_strip, double x,
                const AxisLook& y_look, double density) const {
    Axes axes = of_strip;
    axes.x.first = 0.0;
    axes.x.last = 1.0;
    axes.plot.x = x;
    axes.plot.width = sink_column_width;
    add_strip(scene, style, axes, density);
    AxisLook bare;
    bare.labels = bare.line = false;
    add_axes(scene, style, axes, bare, y_look);
    Path outline;
    outline.rect(axes.plot);
    add_stroked(scene, std::move(outline), {style.colours.ink, 0.7});
    Markers mark{
        .shape = MarkerShape::triangle_down, .size = 4.5, .stroke = Stroke{style.colours.ink, 0.7}};
    mark.points.push_back({axes.plot.centre().x, axes.plot.y - 4.0});
    scene.add(std::move(mark));
  }

  /// The first token that queries after a step see.
  int first_token(int step) const {
    return first_seen(blocks[static_cast<std::size_t>(step)].end, reach);
  }

  static double row_height(const Axes& axes, int step) {
    return std::abs(axes.to_page(0, step + 1.0).y - axes.to_page(0, step).y);
  }

  /// A hairline where rows change their height.
  static void add_knee(Scene& scene, const Style& style, const Axes& axes) {
    const double y = axes.to_page(0, *axes.y.knee).y;
    Path line;
    line.move({axes.plot.x, y}).line({axes.plot.right(), y});
    add_stroked(scene, std::move(line), {style.colours.faint, 0.4, {2.0, 2.0}, Cap::butt});
  }

  std::size_t index(int step, int token) const {
    return static_cast<std::size_t>(step) * static_cast<std::size_t>(tokens) +
           static_cast<std::size_t>(token);
  }

  std::vector<LegendEntry> legend(const Style& style) const {
    const Palette& c = style.colours;
    std::vector<LegendEntry> entries;
    entries.push_back({scored ? "retained, by score" : "retained", MarkerShape::square, c.retained,
                       std::nullopt});
    if (scored) entries.push_back({"low score", MarkerShape::square, alive(style, 0)});
    LegendEntry evicted{"evicted at this step", MarkerShape::square, std::nullopt,
                        Stroke{c.evicted, 1.2}};
    LegendEntry shield{"protected", MarkerShape::square, c.protected_};
    LegendEntry merged{"merged", MarkerShape::diamond, c.merged};
    LegendEntry synthetic{"synthetic", MarkerShape::square, c.pivot};
    if (style.patterns) {
      synthetic.pattern = state_pattern(TokenState::synthetic);
      synthetic.pattern_colour = c.paper;
      evicted.pattern = state_pattern(TokenState::evicted);
      evicted.fill = core(style);
      evicted.stroke->width = frame;
      evicted.pattern_colour = c.evicted;
      shield.pattern = state_pattern(TokenState::protected_);
      merged.pattern = state_pattern(TokenState::merged);
      shield.pattern_colour = merged.pattern_colour = c.paper;
    }
    entries.push_back(std::move(evicted));
    if (any_shield) entries.push_back(std::move(shield));
    if (any_merged) entries.push_back(std::move(merged));
    if (any_synthetic) entries.push_back(std::move(synthetic));
    if (!reach.all()) {
      entries.push_back({fmt::format("beyond the {}", reach.name()), MarkerShape::square,
                         std::nullopt, Stroke{c.faint, 0.6, {2.0, 1.5}, Cap::butt}});
    }
    return entries;
  }

  static Colour alive(const Style& style, std::uint8_t rank, bool synthetic = false) {
    // The weakest still stands out from the paper; on black, 3 : 1 takes more.
    const double least = style.theme == Theme::high_contrast ? 0.5 : 0.22;
    const Colour full = synthetic ? style.colours.pivot : style.colours.retained;
    return mix(style.colours.paper, full, least + (1.0 - least) * rank / 255.0);
  }

  /// Inside of an open, evicted run.
  static Colour core(const Style& style) {
    return mix(style.colours.paper, style.colours.evicted, 0.25);
  }

  Colour colour(const Style& style, std::size_t i) const {
    if (!is_kept(cells[i])) return state_colour(style.colours, cells[i]);
    return alive(style, ranks[i], cells[i] == TokenState::synthetic);
  }

  /// One image of the cells from one step to another, blended where several share a pixel.
  void add_cells(Scene& scene, const Style& style, const Axes& axes, double first_step,
                 double last_step, double density) const {
    const int t0 = std::clamp(static_cast<int>(std::floor(axes.x.first)), 0, tokens - 1);
    const int t1 = std::clamp(static_cast<int>(std::ceil(axes.x.last)), t0 + 1, tokens);
    const int s0 = std::clamp(static_cast<int>(std::floor(first_step)), 0, steps - 1);
    const int s1 = std::clamp(static_cast<int>(std::ceil(last_step)), s0 + 1, steps);
    const int width = std::min(t1 - t0, std::max(1, static_cast<int>(axes.plot.width * density)));
    const double room = std::abs(axes.to_page(0, s1).y - axes.to_page(0, s0).y);
    const int height = std::min(s1 - s0, std::max(1, static_cast<int>(room * density)));
    auto pixels = blend_cells({s0, s1, t0, t1}, width, height, [&](int step, int token) {
      return colour(style, index(step, token));
    });
    const Point from = axes.to_page(t0, s0);
    const Point to = axes.to_page(t1, s1);
    add_image(scene, std::move(pixels), {from.x, from.y, to.x - from.x, to.y - from.y});
  }

  void add_block_lines(Scene& scene, const Style& style, const Axes& axes) const {
    Path lines;
    double before = axes.plot.x;
    for (const Block& block : blocks) {
      const double x = axes.to_page(block.end, axes.y.first).x;
      if (block.size() < 2 || x - before < 6.0 || x > axes.plot.right() - 1.0) continue;
      lines.move({x, axes.plot.y}).line({x, axes.plot.bottom()});
      before = x;
    }
    add_stroked(scene, std::move(lines), {style.colours.grid, 0.4});
  }

  static constexpr double least_row = 2.4;  // points; lower, the frame would be all there is
  static constexpr double frame = 0.7;      // of an open run

  /// Evicted runs are open, so that they differ from retained ones in grey print, too.
  void add_open_cells(Scene& scene, const Style& style, const Axes& axes) const {
    Path cores;
    for (int s = 0; s < steps; ++s) {
      const double row = row_height(axes, s);
      const double top = axes.to_page(0, s).y;
      if (row < least_row || top + row < axes.plot.y || top > axes.plot.bottom()) continue;
      for (int t = 0; t < tokens; ++t) {
        if (cells[index(s, t)] != TokenState::evicted) continue;
        int end = t;
        while (end < tokens && cells[index(s, end)] == TokenState::evicted) ++end;
        const double left = axes.to_page(t, s).x + frame;
        const double width = axes.to_page(end, s).x - frame - left;
        if (width > 0.2 && left < axes.plot.right() && left + width > axes.plot.x) {
          cores.rect({left, top + frame, width, row - 2 * frame});
        }
        t = end;
      }
    }
    if (cores.verbs.empty()) return;
    cores.fill = core(style);
    scene.add(std::move(cores));
  }

  /// Lines over evicted, merged and synthetic runs, dots on protected ones, in a colour that stands
  /// out from the cells.
  void add_patterns(Scene& scene, const Style& style, const Axes& axes) const {
    const Palette& c = style.colours;
    PatternFill open(state_pattern(TokenState::evicted), c.evicted);
    PatternFill evicted(state_pattern(TokenState::evicted), c.paper);
    PatternFill merged(state_pattern(TokenState::merged), c.paper);
    PatternFill synthetic(state_pattern(TokenState::synthetic), c.paper);
    PatternFill pale(state_pattern(TokenState::synthetic), c.ink);
    PatternFill strong(state_pattern(TokenState::protected_), c.paper);
    PatternFill weak(state_pattern(TokenState::protected_), c.ink);
    const auto is_strong = [&](int s, int t) { return ranks[index(s, t)] > 115; };
    for (int s = 0; s < steps; ++s) {
      const double row = row_height(axes, s);
      const double top = axes.to_page(0, s).y;
      if (top + row < axes.plot.y || top > axes.plot.bottom()) continue;
      for (int t = 0; t < tokens;) {
        const TokenState state = cells[index(s, t)];
        const bool shield = state == TokenState::protected_;
        const bool made = state == TokenState::synthetic;
        int end = t + 1;
        while (end < tokens && cells[index(s, end)] == state &&
               ((!shield && !made) || is_strong(s, end) == is_strong(s, t)))
          ++end;
        const double left = std::max(axes.plot.x, axes.to_page(t, s).x);
        const double right = std::min(axes.plot.right(), axes.to_page(end, s).x);
        const int first = t;
        t = end;
        if (state_pattern(state) == Pattern::none || right <= left) continue;
        const Rect run{left, top, right - left, row};
        PatternFill& fill = shield                        ? (is_strong(s, first) ? strong : weak)
                            : made                        ? (is_strong(s, first) ? synthetic : pale)
                            : state == TokenState::merged ? merged
                            : row < least_row             ? evicted
                                                          : open;
        fill.cover(run);
      }
    }
    for (PatternFill* fill : {&open, &evicted, &merged, &synthetic, &pale, &strong, &weak}) {
      fill->add_to(scene);
    }
  }

  /// A green line under every run of protected cells, as thick as the row bears.
  void add_shields(Scene& scene, const Style& style, const Axes& axes) const {
    if (!any_shield) return;
    add_shields(scene, style, axes, 0, prompt_steps);
    add_shields(scene, style, axes, prompt_steps, steps);
  }

  /// Those of steps of one height.
  void add_shields(Scene& scene, const Style& style, const Axes& axes, int first_step,
                   int end_step) const {
    if (first_step == end_step) return;
    const double row = row_height(axes, first_step);
    if (row < 0.8) return;
    const double thick = std::clamp(row * 0.28, 0.3, 1.4);
    Path lines;
    for (int s = first_step; s < end_step; ++s) {
      const double y = axes.to_page(0, s + 1).y - thick / 2;
      if (y < axes.plot.y || y > axes.plot.bottom() + row) continue;
      for (int t = 0; t < tokens;) {
        if (cells[index(s, t)] != TokenState::protected_) {
          ++t;
          continue;
        }
        int end = t;
        while (end < tokens && cells[index(s, end)] == TokenState::protected_) ++end;
        lines.move({axes.to_page(t, s).x, y}).line({axes.to_page(end, s).x, y});
        t = end;
      }
    }
    add_stroked(scene, std::move(lines), {style.colours.protected_, thick});
  }

  /// Evictions that a reduced image would dilute: a tick each where steps are rare and rows high.
  void add_ticks(Scene& scene, const Style& style, const Axes& axes) const {
    const double cell = axes.plot.width / std::abs(axes.x.last - axes.x.first);
    const double row = row_height(axes, steps - 1);  // prompt steps have no ticks
    if (cell >= 0.6 && row >= 0.8) return;           // each cell is its own mark
    Path lines;
    for (int s = 0; s < steps; ++s) {
      if (blocks[static_cast<std::size_t>(s)].size() > 1)
        continue;  // many at once: their mean says it
      for (int t = 0; t < tokens; ++t) {
        if (cells[index(s, t)] != TokenState::evicted) continue;
        const Point at = axes.to_page(t + 0.5, s + 0.5);
        const double reach = std::max(row / 2, 0.8);
        lines.move({at.x, at.y - reach}).line({at.x, at.y + reach});
      }
    }
    add_stroked(scene, std::move(lines), {style.colours.evicted, 0.6});
  }

  /// The stair along which entries leave with the model's window, whatever the policy.
  void add_window_edge(Scene& scene, const Style& style, const Axes& axes) const {
    Path edge;
    bool begun = false;
    for (int s = 0; s < steps; ++s) {
      const int first = first_token(s);
      if (first == 0) continue;
      const Point top = axes.to_page(first, s);
      if (begun) {
        edge.line(top);
      } else {
        edge.move(top);
      }
      edge.line(axes.to_page(first, s + 1));
      begun = true;
    }
    if (!begun) return;
    add_stroked(scene, std::move(edge), {style.colours.faint, 0.6, {2.0, 1.5}, Cap::butt});
  }
};

constexpr std::size_t kMostCells = std::size_t{1} << 28U;  // two bytes each

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const HeadReplay* head = &head_of(replay, s.layer, s.head);
  auto figure = std::make_unique<Filmstrip>();
  figure->selection = s;
  figure->tokens = static_cast<int>(head->evicted_at.size());
  figure->steps = static_cast<int>(replay.blocks.size());
  figure->blocks = replay.blocks;
  figure->reach = head->reach;
  const int prompt_length = input.trace->run().prompt_length;
  figure->prompt_steps = static_cast<int>(
      std::count_if(replay.blocks.begin(), replay.blocks.end(),
                    [&](const Block& block) { return block.first < prompt_length; }));
  figure->given = given_tokens(*input.trace);
  figure->segments = SegmentBand(*input.trace, figure->given);
  const auto size =
      static_cast<std::size_t>(figure->steps) * static_cast<std::size_t>(figure->tokens);
  if (size > kMostCells) {
    throw WorkError(
        fmt::format("{} steps of {} tokens are too many for a film strip; choose larger blocks, "
                    "which give fewer steps",
                    figure->steps, figure->tokens));
  }
  const HeadSink sink = head_sink(*input.trace, s.layer, s.head, progress);
  figure->sink = sink.strength;
  if (!(figure->sink > static_cast<double>(kSinkHead))) figure->sink = 0.0;
  figure->cells.assign(size, kAbsent);
  figure->ranks.assign(size, 255);
  progress.set_total(figure->steps);
  progress.count("steps", figure->steps);
  std::vector<char> made(static_cast<std::size_t>(figure->tokens), 0);
  for (int step = 0; step < figure->steps; ++step) {
    progress.advance();
    const std::size_t row =
        static_cast<std::size_t>(step) * static_cast<std::size_t>(figure->tokens);
    const auto at = static_cast<std::size_t>(step);
    const std::vector<std::int32_t> tokens = replay.tokens_at(*head, step);
    const std::vector<float> ranks = score_ranks(replay, *head, step);
    for (const std::int32_t token : made_synthetic(replay, *head, step)) {
      made[static_cast<std::size_t>(token)] = 1;
    }
    const bool fates = at < head->fates.size() && head->fates[at].size() == tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto t = static_cast<std::size_t>(tokens[i]);
      const bool leaves = head->evicted_at[t] == step;
      const Fate fate = fates ? head->fates[at][i] : (leaves ? Fate::evicted : Fate::by_score);
      const bool merged = fate == Fate::merged;
      figure->cells[row + t] = leaves ? (merged ? TokenState::merged : TokenState::evicted)
                               : is_protection(fate) ? TokenState::protected_
                               : made[t] != 0        ? TokenState::synthetic
                                                     : TokenState::retained;
      figure->any_synthetic |= figure->cells[row + t] == TokenState::synthetic;
      if (leaves && merged) figure->any_merged = true;
      if (!leaves && is_protection(fate)) figure->any_shield = true;
      if (!std::isnan(ranks[t])) {
        figure->ranks[row + t] = static_cast<std::uint8_t>(std::lround(ranks[t] * 255.0F));
        figure->scored = true;
      }
    }
  }
  const double weight = figure->prompt_weight();
  figure->caption_text = fmt::format(
      "Cache of layer {}, head {} under {}, N = {}: each row is a step, each column a "
      "token.{}{}{}{}{}",
      s.layer, s.head, replay.policy, format_count(replay.budget),
      figure->scored ? " Lighter cells have lower scores." : "",
      head->reach.all() ? ""
                        : fmt::format(" Tokens left of the dashed line have left the model's {} of "
                                      "{} tokens: no later query sees them.",
                                      head->reach.name(), format_count(head->reach.span())),
      figure->sink > 0.0
          ? fmt::format(" Left, outlined: token 0, a sink, which receives {}{} of "
                        "the attention; enlarged.",
                        sink.estimated ? "about " : "", format_number(sink.strength, 2))
          : "",
      weight > 1.0
          ? fmt::format(" Rows of the prompt, above the line, are {:.2g} times as high.", weight)
          : "",
      given_sentence(figure->given, "ticks at the top"));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "filmstrip", "Film strip",
      "A head's cache over time: a column is a token, a row a step. Blue: in the cache, lighter "
      "with a lower score; vermillion: evicted at this step; plum: synthetic, with a key, value or "
      "log-bias of its own; green line: protected; dashed: the edge of the model's sliding window, "
      "if it has one",
      Topic::kept, compute, kTwoColumns, 2.4);
  info.zoom = Zoom::x;
  info.needs = {.head = true, .tokens = true, .policy = true, .scores = true};
  return info;
}

}  // namespace kvloupe::figure::filmstrip_figure
