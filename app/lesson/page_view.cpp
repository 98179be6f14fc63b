#include "app/lesson/page_view.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/lesson/answer.h"
#include "app/plot/ticks.h"
#include "app/session/session.h"
#include "app/session/view_catalog.h"

namespace kvloupe::lesson {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostViewBytes = 64 << 10;
constexpr const char* kUnknown = "–";

int line_of(const std::string& text, std::size_t at, int first) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size()));
  return first + static_cast<int>(std::count(text.begin(), end, '\n'));
}

/// Every {{...}} of a view replaced by what `value` says of it. Throws TextError.
template <typename ValueOf>
std::string filled(const std::string& json, int line, const ValueOf& value) {
  std::string result;
  std::size_t at = 0;
  for (;;) {
    const std::size_t open = json.find("{{", at);
    // JSON may itself have two braces in a row; a number starts with a letter, a digit or a sign.
    if (open == std::string::npos) break;
    const std::size_t close = json.find("}}", open);
    const int here = line_of(json, open, line);
    if (close == std::string::npos) throw TextError{here, "{{ is not closed by }}"};
    result.append(json, at, open - at);
    result += value(read_slot(std::string_view(json).substr(open + 2, close - open - 2), here));
    at = close + 2;
  }
  return result.append(json, at);
}

/// The line of a field that a message starts with ("tiles[0].view ..."), or the view's first.
int line_of_field(const std::string& json, const std::string& message, int first) {
  const std::string field = message.substr(0, message.find(' '));
  const std::size_t dot = field.rfind('.');
  const std::string leaf = dot == std::string::npos ? field : field.substr(dot + 1);
  const std::size_t at = json.find("\"" + leaf.substr(0, leaf.find('[')) + "\"");
  return at == std::string::npos ? first : line_of(json, at, first);
}

/// The view, its numbers filled in, without the fields that a session does not have.
struct View {
  window::WorkspaceState workspace;
  bool step_slider = false;
};
View read_filled(const std::string& json, int line) {
  if (json.size() > kMostViewBytes) throw TextError{line, "the view is too long"};
  if (is_deep_json(json)) throw TextError{line, "the view is nested too deeply"};
  Json fields;
  try {
    fields = Json::parse(json);
  } catch (const Json::parse_error& error) {
    throw TextError{
        line_of(json, error.byte > 0 ? error.byte - 1 : 0, line),
        "the view is not valid JSON here; a comma, a quote or a bracket may be missing"};
  }
  if (!fields.is_object()) throw TextError{line, "the view must be an object: {...}"};
  View view;
  if (const auto slider = fields.find("slider"); slider != fields.end()) {
    if (*slider != "steps")
      throw TextError{line_of_field(json, "slider", line), "slider has one value: \"steps\""};
    view.step_slider = true;
    fields.erase(slider);
  }
  try {
    view.workspace = window::read_view(fields.dump());
  } catch (const UsageError& error) {
    throw TextError{line_of_field(json, error.what(), line), std::string("view: ") + error.what()};
  }
  return view;
}

/// For a check without a trace any number will do; 1 is a layer, a budget, a token. A text in a
/// view is a policy.
std::string any_number(const Slot& slot) {
  if (slot.expression.depends_on_selection()) {
    throw TextError{
        slot.line,
        fmt::format("{{{{{}}}}}: a number in a view must not depend on the view's own selection",
                    in_one_line(slot.expression.text(), 60))};
  }
  return slot.expression.is_text() ? kFullCache : "1";
}

/// A number for JSON: all its digits, without a thin space.
std::string json_number(const Slot& slot, const Value& value) {
  if (const std::string* text = std::get_if<std::string>(&value)) {
    const std::string quoted = Json(*text).dump();
    return quoted.substr(1, quoted.size() - 2);
  }
  const double number = std::get<double>(value);
  if (!std::isfinite(number)) {
    throw TextError{slot.line, fmt::format("{{{{{}}}}} is not available in this trace",
                                           in_one_line(slot.expression.text(), 60))};
  }
  if (slot.format == Format::percent) return fmt::format("{:.6g}%", 100.0 * number);
  if (slot.format == Format::whole || number == std::floor(number))
    return fmt::format("{:.0f}", number);
  return fmt::format("{:.9g}", number);
}

[[noreturn]] void fail(const Lesson& lesson, const TextError& error) {
  throw FileError(fmt::format("{}:{}", lesson.path.string(), error.line), error.problem);
}

/// "--layer 7: ..." of the command line as a field of a view.
std::string without_dashes(std::string message) {
  if (message.starts_with("--")) message.erase(0, 2);
  return message;
}

/// Percent as people write it: 41 %, 2.6 %, 0.03 %.
std::string percent_text(double share) {
  const double value = 100.0 * share;
  const double size = std::abs(value);
  const std::string digits = size >= 9.95 || size == 0.0 ? figure::format_count(std::lround(value))
                             : size >= 0.095
                                 ? figure::format_number(std::round(value * 10.0) / 10.0, 2)
                                 : figure::format_number(value, 1);
  return digits + "\u00A0%";
}

std::string bytes_text(double bytes) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  for (const auto& [unit, name] : kUnits) {
    if (std::abs(bytes) >= 0.9995 * unit)
      return figure::format_number(bytes / unit) + "\u00A0" + name;
  }
  return figure::format_count(std::lround(bytes)) + "\u00A0B";
}

}  // namespace

bool check_view(const std::string& json, int line) {
  return read_filled(filled(json, line, any_number), line).step_slider;
}

std::string missing_need(const Lesson& lesson, const LessonTraces& traces) {
  const Trace& trace = *traces.trace;
  for (const TraceNeed& need : lesson.needs) {
    std::string lacks;
    if (need.kind == "segment" && segment_of(trace.tokens(), need.segment).first < 0) {
      lacks = fmt::format(
          "a segment {0}, which this trace does not have; mark the segment in the prompt file with "
          "a line @@{0}",
          need.segment);
    } else if (need.kind == "generated" && trace.run().generated == 0) {
      lacks = "generated tokens, which this trace does not have; capture it with --generate";
    } else if (need.kind == "closed" && traces.closed.empty()) {
      std::string policies;
      bool writes = false;
      for (const ClosedRun& run : lesson.run.closed) {
        policies += fmt::format("{}{} {}", policies.empty() ? " (" : ", ", run.policy, run.budget);
        writes = writes || run.own_words;
      }
      lacks = fmt::format(
          "closed-loop runs of the same prompt{}{}; make each with kvloupe-capture run --model "
          "MODEL --from {} {}--policy POLICY --budget BUDGET -o RUN.h5, and give it with another "
          "--trace",
          policies, policies.empty() ? "" : ")", trace.path().string(),
          writes ? fmt::format("--generate {} ", std::max(1, trace.run().generated)) : "");
    } else if (need.kind == "predictions" && !trace.predictions()) {
      lacks = "the model's predictions, which this trace does not have; capture the trace again";
    } else if (need.kind == "output_weight" && !trace.has_output_weight()) {
      lacks =
          "the output projections of all layers, which this trace does not have; capture the "
          "prompt with kvloupe-capture";
    } else if (need.kind == "tokens" && trace.length() < need.tokens) {
      lacks = fmt::format("at least {} tokens; this trace has {}", need.tokens, trace.length());
    }
    if (!lacks.empty())
      return fmt::format("{}: lesson {} needs {}", trace.path().string(), lesson.name, lacks);
  }
  return {};
}

LessonState lesson_state(const LessonTraces& traces, window::WorkspaceState workspace,
                         bool playing) {
  return {traces.trace, traces.closed, std::move(workspace), playing, traces.store};
}

window::WorkspaceState page_workspace(const Lesson& lesson, std::size_t page,
                                      const LessonTraces& traces, Progress& progress) {
  while (page > 0 && lesson.pages.at(page).view_json.empty()) --page;
  const Page& shown = lesson.pages.at(page);
  window::WorkspaceState workspace = window::default_state();
  const Trace& trace = *traces.trace;
  // Lessons are written for any model: where a layer has no cache, its neighbour is shown.
  const auto with_cache = [&](int layer) {
    const bool there = layer >= 0 && layer < trace.model().num_layers;
    return there ? figure::nearest_layer(trace, layer) : layer;
  };
  workspace.selection.layer = with_cache(workspace.selection.layer);
  try {
    if (!shown.view_json.empty()) {
      const LessonState before = lesson_state(traces, workspace);
      const auto value = [&](const Slot& slot) {
        any_number(slot);
        return json_number(slot, evaluate(slot.expression, before, progress));
      };
      workspace =
          read_filled(filled(shown.view_json, shown.view_line, value), shown.view_line).workspace;
    }
    workspace.trace = trace.path().string();
    workspace.selection.layer = with_cache(workspace.selection.layer);
    workspace.block = std::min(workspace.block, trace.run().prompt_length);
    figure::resolve(
        workspace.selection, trace,
        static_cast<int>(replay_blocks(trace, workspace.block, workspace.compression).size()));
    workspace.budget.resolve(trace.run().prompt_length);
  } catch (const TextError& error) {
    fail(lesson, error);
  } catch (const UsageError& error) {
    fail(lesson, {shown.view_line > 0 ? shown.view_line : shown.line,
                  "view: " + without_dashes(error.what())});
  }
  return workspace;
}

std::string formatted(const Value& value, Format format) {
  if (const std::string* text = std::get_if<std::string>(&value))
    return text->empty() ? kUnknown : *text;
  const double number = std::get<double>(value);
  if (std::isnan(number)) return kUnknown;
  if (std::isinf(number)) return figure::format_number(number);
  switch (format) {
    case Format::percent:
      return percent_text(number);
    case Format::whole:
      return figure::format_count(std::lround(number));
    case Format::bytes:
      return bytes_text(number);
    default:
      return figure::format_number(number);
  }
}

RichText finished_text(const RichText& text, const LessonState& state, Progress& progress) {
  RichText finished = text;
  const auto holds = [&](const Condition& condition) {
    bool met = false;
    try {
      met = is_met(condition.when, state, progress);
    } catch (const UsageError&) {  // as below
    } catch (const WorkError&) {
    }
    return met == condition.met;
  };
  for (Block& block : finished) {
    std::erase_if(block.runs, [&](const Run& run) {
      return !std::all_of(run.conditions.begin(), run.conditions.end(), holds);
    });
  }
  std::erase_if(finished, [](const Block& block) {
    return std::all_of(block.runs.begin(), block.runs.end(), [](const Run& run) {
      return !run.slot && run.text.find_first_not_of(' ') == std::string::npos;
    });
  });
  for (Block& block : finished) {
    for (Run& run : block.runs) {
      run.conditions.clear();
      if (!run.slot) continue;
      try {
        run.text = formatted(evaluate(run.slot->expression, state, progress), run.slot->format);
      } catch (const UsageError&) {
        run.text = kUnknown;  // a policy or block size that this trace does not take
      } catch (const WorkError&) {
        run.text = kUnknown;
      }
      run.computed = true;
      run.slot.reset();
    }
  }
  return finished;
}

std::vector<PageFigure> page_figures(const window::WorkspaceState& workspace) {
  std::vector<PageFigure> figures;
  const auto count =
      std::min(workspace.tiles.size(), static_cast<std::size_t>(workspace.tile_count));
  for (std::size_t i = 0; i < count; ++i) {
    const window::TileState& tile = workspace.tiles[i];
    const figure::FigureInfo* view = window::find_view(tile.view);
    if (view == nullptr) continue;
    PageFigure figure;
    figure.info = view;
    figure.settings = window::settings_of(workspace, tile);
    figure.options.x_range = tile.x_range;
    figure.options.y_range = tile.y_range;
    figure.options.limits = tile.limits;
    figures.push_back(std::move(figure));
  }
  return figures;
}

figure::MadeFigure make_figure(const PageFigure& figure, const LessonTraces& traces,
                               Progress& progress) {
  request::FigureInputs inputs;
  inputs.traces = {traces.trace};
  if (!traces.closed.empty()) {
    // The run of the policy that is shown, else the first.
    const std::string policy = figure.settings.policy.text();
    const auto same = std::find_if(traces.closed.begin(), traces.closed.end(),
                                   [&](const auto& run) { return run->run().policy == policy; });
    inputs.other_loop = same != traces.closed.end() ? *same : traces.closed.front();
  }
  const request::FigureRequest request =
      request::make_request(*figure.info, figure.settings, inputs);
  if (request::missing(*figure.info, request) == request::Missing::other_loop) {
    throw WorkError(
        "figure " + figure.info->name +
        ": compares a full run with a closed-loop run, but the lesson has no closed-loop run");
  }
  return traces.store->figures().make(*figure.info, request, inputs, progress);
}

std::vector<demo::DemoRun> own_runs(const Lesson& lesson) {
  const LessonRun& run = lesson.run;
  std::vector<demo::DemoRun> runs = {
      {.prompt = run.prompt, .generate = run.generate, .block = run.block}};
  for (const ClosedRun& closed : run.closed) {
    runs.push_back(runs.front());
    runs.back().policy = closed.policy;
    runs.back().budget = closed.budget;
    runs.back().own_words = closed.own_words;
  }
  return runs;
}

LessonTraces own_traces(const Lesson& lesson, Progress& progress) {
  constexpr long kParts = 1000;  // of one run
  const std::vector<demo::DemoRun> runs = own_runs(lesson);
  progress.set_total(kParts * static_cast<long>(runs.size()));
  LessonTraces traces;
  for (const demo::DemoRun& run : runs) {
    Progress part(progress, kParts);
    auto trace = std::make_shared<const Trace>(demo::demo_trace(run, part));
    part.finish();
    if (traces.trace) {
      traces.closed.push_back(std::move(trace));
    } else {
      traces.trace = std::move(trace);
    }
  }
  return traces;
}

}  // namespace kvloupe::lesson
