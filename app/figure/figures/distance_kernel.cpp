// Attention at each distance as a head's mean query and mean key predict it, beside the measured
// attention.

#include "analysis/math/distance_kernel.h"

#include "app/figure/figures/figures.h"

namespace kvloupe::figure::distance_kernel_figure {

namespace {
constexpr double kLeastShown = 1e-6;  // of the largest attention
constexpr double kNeeded = 0.9;       // of the attention, held by the sinks and the marked window

/// Distances [first, end) that one point stands for.
struct Bin {
  int first = 0, end = 0;
  double middle() const { return 0.5 * (first + end - 1); }
};

/// Each distance for itself up to `alone`, then on a log axis `per_octave` bins from one power of
/// two to the next, on a linear one bins of equal width, at most about `most`.
std::vector<Bin> bins_of(int distances, bool log_axis, int alone, int per_octave, int most) {
  std::vector<Bin> bins;
  const int width = std::max(1, (distances + most - 1) / most);
  for (int first = log_axis ? 1 : 0; first < distances;) {
    int end = first + width;
    if (log_axis) {
      end = first < alone
                ? first + 1
                : std::max(first + 1,
                           static_cast<int>(std::lround(first * std::exp2(1.0 / per_octave))));
    }
    end = std::min(end, distances);
    bins.push_back({first, end});
    first = end;
  }
  return bins;
}

/// The mean over the distances of each bin, every pair of tokens counting alike where `pairs` says
/// how many tokens there are.
std::vector<Point> binned(const std::vector<double>& values, const std::vector<Bin>& bins,
                          int tokens) {
  std::vector<Point> points;
  for (const Bin& bin : bins) {
    double sum = 0.0, pairs = 0.0;
    for (int distance = bin.first; distance < bin.end; ++distance) {
      const double count = tokens - distance;
      sum += count * values[static_cast<std::size_t>(distance)];
      pairs += count;
    }
    points.push_back({bin.middle(), sum / pairs});
  }
  return points;
}

std::vector<int> query_heads(const ModelInfo& model, const Selection& selection) {
  if (selection.query_head >= 0) return {selection.query_head};
  std::vector<int> heads;
  for (int i = 0; i < model.group_size(); ++i)
    heads.push_back(selection.head * model.group_size() + i);
  return heads;
}

std::vector<DistanceKernel> kernels_of(const FigureInput& input, const std::vector<int>& heads,
                                       Progress& progress) {
  const Selection& s = input.selection;
  const Trace& trace = *input.trace;
  const Rope rope(trace.layer_model(s.layer));
  const Matrix keys = trace.key(s.layer, s.head);
  std::vector<DistanceKernel> kernels;
  progress.set_total(static_cast<long>(heads.size()));
  progress.count("heads", std::ssize(heads));
  for (const int head : heads) {
    const Matrix queries = trace.query(s.layer, head);
    kernels.push_back(distance_kernel(view(queries), view(keys), rope,
                                      trace.attention(s.layer).of(head), trace.reach(s.layer),
                                      progress));
    progress.advance();
  }
  return kernels;
}

/// How well the kernel predicts the measured attention: the correlation of the two over the
/// distances, every pair of tokens counting alike.
double agreement(const DistanceKernel& kernel, int tokens) {
  double all = 0.0, x_mean = 0.0, y_mean = 0.0;
  const auto each = [&](auto&& take) {
    for (std::size_t i = 0; i < kernel.logit.size(); ++i)
      take(tokens - static_cast<double>(i), kernel.logit[i], kernel.mean_logit[i]);
  };
  each([&](double pairs, double x, double y) {
    all += pairs;
    x_mean += pairs * x;
    y_mean += pairs * y;
  });
  x_mean /= all;
  y_mean /= all;
  double xy = 0.0, xx = 0.0, yy = 0.0;
  each([&](double pairs, double x, double y) {
    xy += pairs * (x - x_mean) * (y - y_mean);
    xx += pairs * (x - x_mean) * (x - x_mean);
    yy += pairs * (y - y_mean) * (y - y_mean);
  });
  return xy / std::sqrt(xx * yy);
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const int tokens = input.trace->length();
  const bool of_attention = input.choice("show") == "attention";
  const bool log_axis = input.choice("axis") == "log";
  const std::vector<int> heads = query_heads(input.trace->layer_model(s.layer), s);
  const std::vector<DistanceKernel> kernels = kernels_of(input, heads, progress);
  const int distances = static_cast<int>(kernels.front().logit.size());
  if (distances < 2) throw WorkError("a sequence or window of one token has no distances to show");
  const std::vector<Bin> fine = bins_of(distances, log_axis, 32, 16, 300);
  const std::vector<Bin> coarse = bins_of(distances, log_axis, 8, 3, 36);
  LinePanels::Panel panel;
  ValueRange x, y;
  std::string agreements;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const DistanceKernel& kernel = kernels[i];
    LinePanels::Line line, points;
    line.name = fmt::format("query head {}", heads[i]);
    line.look = points.look = static_cast<int>(i);
    line.target = {.layer = s.layer, .head = s.head, .query_head = heads[i]};
    line.points = binned(of_attention ? kernel.attention : kernel.logit, fine, tokens);
    points.id = line.name + " measured";
    points.marks_only = true;
    points.points =
        binned(of_attention ? kernel.mean_attention : kernel.mean_logit, coarse, tokens);
    for (const auto* some : {&line.points, &points.points}) {
      for (const Point& point : *some) {
        x.add(point.x);
        if (!of_attention || point.y > 0.0) y.add(point.y);
      }
    }
    const double r = agreement(kernel, tokens);
    agreements += fmt::format("{}{} for {}", i == 0 ? "" : ", ",
                              std::isfinite(r) ? fmt::format("{:.2f}", r) : "unknown", line.name);
    panel.lines.push_back(std::move(points));
    panel.lines.push_back(std::move(line));
  }
  const int window = needed_window(kernels, kNeeded);
  if (window >= 1)
    panel.levels.push_back({static_cast<double>(window), fmt::format("w = {}", window), false});
  // Values far below the largest do not matter, and would take the room of all others.
  if (of_attention) y.low = std::max(y.low, kLeastShown * y.high);
  panel.x = log_axis ? x_axis("Distance (tokens)", x.padded_log(), AxisScale::log)
                     : x_axis("Distance (tokens)", x.padded(0.02));
  panel.y = of_attention ? y_axis("Attention", y.padded_log(), AxisScale::log)
                         : y_axis("Logit", y.padded());
  auto figure = line_panels("distance", of_attention ? "attention" : "logit", {std::move(panel)});
  figure->legend = true;
  figure->caption_text = fmt::format(
      "{} of the mean query and the mean key before RoPE at each distance, layer {}, head {}: "
      "q̄ᵀR(Δ)k̄ as a logit{}. Marks: measured, the mean over all pairs of tokens at the distance. "
      "Their correlation: {}. {} of the measured attention goes to the first {} tokens; with "
      "these, {} holds {} %{}.{}",
      of_attention ? "Attention" : "Logit", s.layer, s.head,
      of_attention
          ? ", then the softmax over the distances that a query sees, mean over the queries"
          : "",
      agreements,
      [&] {
        double sinks = 0.0;
        for (const DistanceKernel& kernel : kernels) sinks += kernel.to_sinks;
        return fmt::format("{:.0f} %", 100.0 * sinks / static_cast<double>(kernels.size()));
      }(),
      kKernelSinks,
      window > 0 ? fmt::format("a window of {} tokens", format_count(window)) : "no window",
      std::lround(100.0 * kNeeded), window > 0 ? " (dashed)" : "",
      log_axis ? " Distance 0 cannot be drawn on a log axis." : "");
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "distance-kernel", "Attention by distance",
      "q̄ᵀR(Δ)k̄·scale, with the mean query q̄ and the mean key k̄ of a head before RoPE: a "
      "function of the distance Δ alone. DuoAttention (2410.10819) finds its streaming heads from "
      "this, TriAttention (2604.04921) and expected attention (2510.00636) score keys by it. "
      "Marks: the head's measured value at the distance. Dashed: the window that, with the first 4 "
      "tokens, holds 90 % of its attention",
      Topic::attention, compute, kColumn, 1.45);
  info.needs.head = true;
  info.choices = {word_choice("show", "Show", "The logit, or the attention that follows from it",
                              {"logit", "attention"}),
                  word_choice("axis", "Axis", "Scale of the distances", {"log", "linear"})};
  info.unavailable = [](const Trace& trace) {
    const std::string why = without_full_cache(trace);
    return why.empty() ? without_rotation(trace) : why;
  };
  return info;
}

}  // namespace kvloupe::figure::distance_kernel_figure
