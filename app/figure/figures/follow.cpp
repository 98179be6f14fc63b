// Some tokens in every head: what share of them is still there, and who reads them.

#include "analysis/replay/follow.h"

#include "app/figure/figures/figures.h"
#include "app/figure/figures/read_dots.h"
#include "app/figure/query_head_rows.h"
#include "app/plot/printable.h"

namespace kvloupe::figure::follow_figure {

namespace {
constexpr std::size_t kReaders = 8;   // heads shown step by step
constexpr double kLeastBar = 40.0;    // points
constexpr double kWide = 200.0;       // points: room for panels beside each other
constexpr double kLargestDot = 18.0;  // points, for a head that reads them alone

/// "3.1": layer and head.
std::string head_name(const TokenReads& reads) {
  return fmt::format("{}.{}", reads.layer, reads.head);
}

struct Followed {
  std::string policy;
  std::vector<FollowedHead> heads;  // by falling loss
};

class Follow final : public Figure {
 public:
  int layers = 0, heads = 0, step = 0, steps = 0;
  std::vector<int> present;  // [L] heads of each layer
  std::vector<Followed> policies;
  std::vector<std::size_t> readers;  // of the first policy's heads: those that read most

  double natural_height(const DrawRequest& request) const override {
    return kReadLegendRoom +
           std::max(80.0, panels_natural_height(request.style, panels(request), request.width));
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const ColourScale colours = scale(request);
    const std::vector<Axes> axes = add_panels(scene, style, panels(request));
    const auto number = [](double value) { return format_percent(value); };
    for (std::size_t p = 0; p < policies.size(); ++p) {
      add_cells(scene, style, axes[p], shares(policies[p]), layers, heads, colours, {}, present);
      add_dots(scene, style, axes[p], policies[p], colours);
    }
    const Axes& by_step = axes.back();
    // A web page has one text for each region: the steps, too.
    for (const int columns : {1, std::max(steps, 1)}) {
      add_cell_regions(scene, by_step.plot, readers.size(), static_cast<std::size_t>(columns),
                       [&](std::size_t r, std::size_t c) {
                         const TokenReads& reads = policies.front().heads[readers[r]].reads;
                         const int at = columns == 1 ? -1 : static_cast<int>(c);
                         return Target{.step = at, .layer = reads.layer, .head = reads.head};
                       });
    }
    add_cells(scene, style, by_step, reader_shares(), static_cast<int>(readers.size()), steps,
              colours, number);
    add_step_line(scene, style, by_step);
    const Rect all = around(axes);
    // A stamp of a few millimetres has no room for it.
    if (all.height > kLeastBar &&
        all.right() + colour_bar_width(style, colours, all.height) <= request.width + 1.0) {
      add_colour_bar(scene, style, all, colours);
    }
    if (request.legend)
      add_read_legend(scene, style, axes.front().plot.x, largest_dot(axes.front().plot));
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "layer", "head", "read_question", "read_answer", "read_later", "read",
             "share_at_step", "kept", "first_loss", "last_loss", "loss", "restored_change",
             "restored_logit"});
    for (const Followed& one : policies) {
      for (const FollowedHead& head : one.heads) {
        csv.row({one.policy, head.reads.layer, head.reads.head, head.reads.question,
                 head.reads.answer, head.reads.later, head.reads.read, share_of(head),
                 head.fate.kept, head.fate.first_loss, head.fate.last_loss, head.loss,
                 head.restored.change, head.restored.effect});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    std::string text;
    for (const Followed& one : policies) {
      for (const FollowedHead& head : one.heads) {
        if (head.reads.layer != target.layer || head.reads.head != target.head) continue;
        if (target.step >= 0 && target.step < std::ssize(head.fate.share)) {  // of a main reader
          return fmt::format("{:.0f} % there after step {}",
                             100.0 * head.fate.share[static_cast<std::size_t>(target.step)],
                             target.step);
        }
        text += fmt::format("{}{:.0f} % there", text.empty() ? "" : ", ", 100.0 * share_of(head));
        if (head.fate.first_loss >= 0 && head.fate.first_loss <= step) {
          text += fmt::format(", lost from step {} on", head.fate.first_loss);
        }
        if (&one != &policies.back()) continue;
        text += fmt::format(", read {:.3f}", head.reads.read);
      }
    }
    return text;
  }

 private:
  static std::string format_percent(double value) { return fmt::format("{:.0f}", 100.0 * value); }

  double share_of(const FollowedHead& head) const {
    return head.fate.share[static_cast<std::size_t>(step)];
  }

  std::vector<float> shares(const Followed& one) const {
    std::vector<float> values(static_cast<std::size_t>(layers * heads),
                              std::numeric_limits<float>::quiet_NaN());
    for (const FollowedHead& head : one.heads) {
      values[static_cast<std::size_t>(head.reads.layer * heads + head.reads.head)] =
          static_cast<float>(share_of(head));
    }
    return values;
  }

  std::vector<float> reader_shares() const {
    std::vector<float> values;
    for (const std::size_t reader : readers) {
      for (const double share : policies.front().heads[reader].fate.share) {
        values.push_back(static_cast<float>(share));
      }
    }
    return values;
  }

  /// A head that reads everything has a dot as large as its cell.
  double largest_dot(const Rect& plot) const {
    return std::min(0.9 * std::min(plot.width / heads, plot.height / layers), kLargestDot);
  }

  void add_dots(Scene& scene, const Style& style, const Axes& axes, const Followed& one,
                const ColourScale& colours) const {
    const ColourLookup lookup(colours);
    const double largest = largest_dot(axes.plot);
    for (const FollowedHead& head : one.heads) {
      Markers dot{.size = read_dot_size(head.reads.read, largest)};
      if (dot.size == 0.0) continue;
      const double share = share_of(head);
      dot.fill = std::isnan(share) ? style.colours.ink : ink_on(lookup(share));
      dot.points = {axes.to_page(head.reads.head + 0.5, head.reads.layer + 0.5)};
      scene.add(std::move(dot));
    }
  }

  void add_step_line(Scene& scene, const Style& style, const Axes& axes) const {
    const double left = axes.to_page(step, 0.0).x, right = axes.to_page(step + 1.0, 0.0).x;
    Path frame;
    frame.rect({left, axes.plot.y, right - left, axes.plot.height});
    add_stroked(scene, std::move(frame), {style.colours.ink, 0.8});
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts, .label = "Share still there"};
    choose_limits(colours, request.limits, kShare);
    return colours;
  }

  PanelGrid panels(const DrawRequest& request) const {
    PanelGrid grid{.columns = request.width > kWide ? static_cast<int>(policies.size()) + 1 : 0,
                   .least_width = 60.0,
                   .aspect = cell_map_aspect(layers, heads),
                   .top = request.legend ? kReadLegendRoom : 2.0,
                   .right = colour_bar_width(request.style, scale(request), 80.0)};
    for (const Followed& one : policies) {
      Panel panel;
      panel.title = one.policy;
      panel.x = head_axis(heads);
      panel.y = layer_axis(layers);
      panel.is_map = true;
      grid.panels.push_back(std::move(panel));
    }
    Panel readers_panel{
        .title = "main readers",
        .x = {AxisMeaning::step, AxisScale::linear, 0.0, static_cast<double>(steps), "Step"},
        .y = {AxisMeaning::value, AxisScale::linear, 0.0, static_cast<double>(readers.size()),
              "Layer, head"}};
    for (const std::size_t reader : readers) {
      readers_panel.y.names.push_back(head_name(policies.front().heads[reader].reads));
    }
    readers_panel.is_map = true;
    grid.panels.push_back(std::move(readers_panel));
    return grid;
  }
};

/// "tokens 120–131", or the text of a single token.
std::string in_words(const Trace& trace, const std::string& text, const std::vector<int>& tokens) {
  if (tokens.size() == 1) {
    return fmt::format(
        "Token {}{}", tokens.front(),
        trace.tokens().text.empty()
            ? ""
            : " (" + printable(trace.tokens().text[static_cast<std::size_t>(tokens[0])]) + ")");
  }
  const std::string name = text == "auto" ? "needle" : text;
  const auto& names = trace.tokens().segment_names;
  const std::string range =
      fmt::format("{} tokens, {} to {}", tokens.size(), tokens.front(), tokens.back());
  if (std::find(names.begin(), names.end(), name) == names.end()) return range;
  return fmt::format("Segment {} ({})", name, range);
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Follow>();
  const Trace& trace = *input.trace;
  figure->layers = trace.model().num_layers;
  figure->heads = trace.most_heads();
  figure->present = heads_of_layers(trace);
  figure->step = input.selection.step;
  const std::vector<int> tokens = chosen_tokens(input);
  const auto reads = input.replays->reads(trace, tokens, false, progress);
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (!replay) continue;
    figure->steps = static_cast<int>(replay->blocks.size());
    AskOptions asking{.states = &input.replays->states()};
    Progress part(progress, 0);
    figure->policies.push_back(
        {replay->policy,
         follow(*replay, *reads, tokens, restored_heads(trace, *replay, tokens, asking, part))});
  }
  const std::vector<FollowedHead>& heads = figure->policies.front().heads;
  std::vector<std::size_t> order(heads.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto read = [&](std::size_t i) {
    return std::isnan(heads[i].reads.read) ? -1.0 : heads[i].reads.read;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return read(a) > read(b); });
  order.resize(std::min(order.size(), kReaders));
  figure->readers = std::move(order);
  std::string& text = figure->caption_text = fmt::format(
      "{} in every head after step {}: colour, the share still in the cache; dots, the attention "
      "that the answer's queries give to what is followed with the full cache (mean over these "
      "queries and the head's query heads; without an answer: the queries of the question; without "
      "both: all later queries)",
      in_words(trace, input.choice("tokens"), tokens), figure->step);
  char letter = 'a';
  for (const Followed& one : figure->policies) {
    text += fmt::format("{} {}, {}", letter == 'a' ? "." : ";", letter, one.policy);
    ++letter;
  }
  text += fmt::format("; {}, the heads that read most, step by step (layer.head), under {}.{}",
                      letter, figure->policies.front().policy, absent_rows_text(figure->present));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "follow", "Follow tokens",
      "The followed tokens in every head: the share still in the cache after the step, and as a "
      "dot the share of the answer's attention (else the question's) that reads them with the full "
      "cache. A large dot on a dark cell is a head that reads tokens that it lost",
      Topic::kept, compute, kTwoColumns, 2.4);
  info.limits = true;
  info.needs = {.step = true, .policy = true, .all_layers = true, .beside = true};
  info.choices = {tokens_choice()};
  return info;
}

}  // namespace kvloupe::figure::follow_figure
