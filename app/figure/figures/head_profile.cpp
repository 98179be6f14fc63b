// One head of a study: the distribution of every measure over the prompts, how often it has which
// role, and the contexts in which it pays the most attention.

#include <array>
#include <map>
#include <numeric>

#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/math/head_roles.h"
#include "analysis/math/later_attention.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_traces.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/printable.h"

namespace kvloupe::figure::head_profile_figure {

namespace {

constexpr const char* kAll = "all";
constexpr std::size_t kMostPanels = 11;   // of measures; the CSV has all
constexpr std::size_t kMostContexts = 8;  // lines; the CSV has one of each prompt
constexpr int kDeciles = 10;
constexpr int kWordsAround = 14;  // tokens before and after the attended one

/// One measure over the prompts.
struct Distribution {
  struct Value {
    double value = 0.0;
    std::string prompt;
    int item = -1;
  };
  StudyMeasure measure;
  std::vector<Value> values;  // ascending; only known ones
  StudentMean mean;

  /// The place of a value among the prompts, in percent: 0 is the least, 100 the greatest.
  double percent(std::size_t rank) const {
    return values.size() > 1
               ? 100.0 * static_cast<double>(rank) / static_cast<double>(values.size() - 1)
               : 50.0;
  }
  double decile(int tenths) const {
    std::vector<double> all;
    for (const Value& one : values) all.push_back(one.value);
    return quantile(all, tenths / static_cast<double>(kDeciles));
  }
};

/// How often a query head has a role.
struct RoleShare {
  int query_head = -1;   // −1: the mean over the query heads of the head
  std::size_t role = 0;  // of the catalogue; its size: no name
  long prompts = 0;      // on which roles are known
  MeanInterval share;
};

/// The strongest attention in one prompt.
struct Context {
  std::string prompt;
  int item = -1;
  int query_head = -1;
  AttendedToken at;
  std::vector<std::string> before, after;  // of the attended token, as printed
  std::string token, query;
  std::string identity;  // of the trace as it is now
};

std::string role_label(std::size_t role) {
  return role < role_catalog().size() ? role_catalog()[role].label : "no name";
}

class HeadProfile final : public PanelFigure {
 public:
  HeadMeasureTable::Head head;
  std::vector<Distribution> measures;
  std::vector<RoleShare> roles;
  std::vector<Context> contexts;  // the strongest first

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    for (std::size_t m = 0; m < shown_measures(); ++m)
      draw_distribution(scene, style, axes[m], measures[m]);
    if (!roles.empty()) draw_roles(scene, style, axes.back());
    draw_contexts(scene, style, request);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"section", "name", "query_head", "prompt", "item", "percent", "value", "low_95",
             "high_95", "query", "token", "text"});
    const auto row = [&](std::string_view section, std::string_view name, long query_head,
                         std::string_view prompt, long item, double percent,
                         const MeanInterval& value, long query, long token, std::string_view text) {
      csv.row({section, name, query_head, prompt, item, percent, value.mean, value.low, value.high,
               query, token, text});
    };
    for (const Distribution& one : measures) {
      const std::string_view name = one.measure.name;
      row("mean", name, -1, "", -1, kUnknown, one.mean, -1, -1, "");
      for (int d = 1; d < kDeciles; ++d) {
        row("decile", name, -1, "", -1, d * 10.0, {one.decile(d), kUnknown, kUnknown}, -1, -1, "");
      }
      for (std::size_t i = 0; i < one.values.size(); ++i) {
        const Distribution::Value& at = one.values[i];
        row("prompt", name, -1, at.prompt, at.item, one.percent(i), {at.value, kUnknown, kUnknown},
            -1, -1, "");
      }
    }
    for (const RoleShare& one : roles) {
      row("role", role_label(one.role), one.query_head, "", -1, kUnknown, one.share, -1, -1, "");
    }
    for (const Context& one : contexts) {
      row("context", "attention", one.query_head, one.prompt, one.item, kUnknown,
          {one.at.attention, kUnknown, kUnknown}, one.at.query, one.at.token,
          fmt::format("{}[{}]{}", joined(one.before), one.token, joined(one.after)));
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.run < 0) return {};
    std::string text, prompt;
    for (const Distribution& one : measures) {
      for (const Distribution::Value& value : one.values) {
        if (value.item != target.run) continue;
        prompt = value.prompt;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one.measure.title,
                            format_number(value.value));
      }
    }
    return prompt.empty() ? text : prompt + ": " + text;
  }

 private:
  std::size_t shown_measures() const { return std::min(kMostPanels, measures.size()); }
  std::size_t shown_contexts() const { return std::min(kMostContexts, contexts.size()); }
  static double line_height(const Style& style) { return 1.45 * style.small; }
  double contexts_height(const Style& style) const {
    return contexts.empty() ? 0.0
                            : line_height(style) * (static_cast<double>(shown_contexts()) + 1.6);
  }
  static std::string joined(const std::vector<std::string>& pieces) {
    return std::accumulate(pieces.begin(), pieces.end(), std::string());
  }
  /// The roles that any query head has on some prompt, and their order.
  std::vector<std::size_t> shown_roles() const {
    std::vector<std::size_t> shown;
    for (const RoleShare& one : roles) {
      if (std::find(shown.begin(), shown.end(), one.role) == shown.end()) shown.push_back(one.role);
    }
    std::sort(shown.begin(), shown.end());
    return shown;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    PanelGrid grid{
        .least_width = 92.0, .aspect = 1.3, .beside = 6.0, .below = contexts_height(request.style)};
    for (std::size_t m = 0; m < shown_measures(); ++m) {
      const Distribution& one = measures[m];
      ValueRange range;
      for (const Distribution::Value& value : one.values) range.add(value.value);
      grid.panels.push_back(
          Panel{.title = one.measure.title,
                .x = x_axis("Prompts (%)", {0.0, 100.0}),
                .y = y_axis(one.measure.unit, within(range.padded(), bounds_of(one.measure))),
                .y_grid = true});
    }
    if (!roles.empty()) {
      std::vector<std::string> names;
      for (const std::size_t role : shown_roles()) names.push_back(role_label(role));
      Panel panel;
      panel.title = "Roles";
      panel.x = x_axis("Share of prompts", {0.0, 1.0});
      panel.x_grid = true;
      panel.y = name_axis(std::move(names));
      grid.panels.push_back(std::move(panel));
    }
    return grid;
  }

  static void draw_distribution(Scene& scene, const Style& style, const Axes& axes,
                                const Distribution& one) {
    SeriesLook look{.colour = style.colours.retained};
    std::vector<Point> points, deciles;
    std::vector<Target> targets;
    for (std::size_t i = 0; i < one.values.size(); ++i) {
      points.push_back({one.percent(i), one.values[i].value});
      targets.push_back({.run = one.values[i].item});
    }
    add_line(scene, axes, points, look);
    add_dots(scene, style, axes, points, look, points.size() > 60 ? 1.6 : 2.2, targets);
    for (int d = 1; d < kDeciles && one.values.size() > 1; ++d)
      deciles.push_back({d * 10.0, one.decile(d)});
    SeriesLook decile = look;
    decile.colour = style.colours.ink;
    decile.filled = false;
    add_dots(scene, style, axes, deciles, decile, 3.6);
  }

  void draw_roles(Scene& scene, const Style& style, const Axes& axes) const {
    std::vector<int> query_heads;
    for (const RoleShare& one : roles) {
      if (std::find(query_heads.begin(), query_heads.end(), one.query_head) == query_heads.end())
        query_heads.push_back(one.query_head);
    }
    const std::vector<std::size_t> shown = shown_roles();
    for (const RoleShare& one : roles) {
      const auto row =
          static_cast<double>(std::find(shown.begin(), shown.end(), one.role) - shown.begin());
      const auto place = static_cast<double>(
          std::find(query_heads.begin(), query_heads.end(), one.query_head) - query_heads.begin());
      const double at = row + (place + 1.0) / (static_cast<double>(query_heads.size()) + 1.0);
      SeriesLook look = series_look(style, static_cast<int>(place));
      scene.add(make_line(axes.to_page(one.share.low, at), axes.to_page(one.share.high, at),
                          look.colour, 0.8));
      const std::array<Point, 1> mean{Point{one.share.mean, at}};
      add_dots(scene, style, axes, mean, look, 3.2);
    }
  }

  /// A line for each context: the attention, the text around the attended token, the query's token.
  void draw_contexts(Scene& scene, const Style& style, const DrawRequest& request) const {
    if (contexts.empty()) return;
    const double line = line_height(style);
    double y = request.height - contexts_height(style) + line;
    const double size = style.small;
    Text title = make_text(style, "Strongest attention of a query to one token, by prompt",
                           {2.0, y}, size, Font::bold);
    scene.add(std::move(title));
    const double first = 24.0;
    const double query_room = std::min(70.0, 0.22 * request.width);
    const double last = request.width - query_room - 4.0;
    for (std::size_t i = 0; i < shown_contexts(); ++i) {
      const Context& one = contexts[i];
      y += line;
      scene.add(make_text(style, fmt::format("{:.2f}", one.at.attention), {2.0, y}, size));
      draw_text_around(scene, style, one, first, last, y);
      Text query = make_text(style, fit_words(style, "← " + one.query, size, query_room),
                             {request.width - query_room, y}, size);
      query.colour = style.colours.faint;
      scene.add(std::move(query));
      Target target{.token = -1, .run = one.item};
      scene.regions.push_back({{0.0, y - 0.8 * line, request.width, line}, target});
    }
  }

  /// As many tokens before and after as there is room for, the attended one bold.
  static void draw_text_around(Scene& scene, const Style& style, const Context& one, double first,
                               double last, double y) {
    const double size = style.small;
    const auto width = [&](const std::string& text, Font font) {
      return make_text(style, text, {}, size, font).width;
    };
    const std::string token = fit_words(style, one.token, size, 0.6 * (last - first));
    const double room = last - first - width(token, Font::bold);
    std::string before, after;
    std::size_t b = 0, a = 0;
    for (bool grew = true; grew;) {
      grew = false;
      const auto try_one = [&](std::size_t& used, const std::vector<std::string>& pieces,
                               std::string& text, bool front) {
        if (used >= pieces.size()) return;
        const std::string& piece = front ? pieces[pieces.size() - 1 - used] : pieces[used];
        const std::string longer = front ? piece + text : text + piece;
        const std::string& other = front ? after : before;
        if (width("…" + longer, Font::regular) + width(other + "…", Font::regular) > room) {
          used = pieces.size();
          return;
        }
        text = longer;
        ++used;
        grew = true;
      };
      try_one(b, one.before, before, true);
      try_one(a, one.after, after, false);
    }
    const bool cut = one.before.size() == std::size_t{kWordsAround} || before != joined(one.before);
    before.erase(0, before.find_first_not_of(' '));
    if (cut) before.insert(0, "…");
    double x = first;
    const auto add = [&](const std::string& text, Font font) {
      if (text.empty()) return;
      Text piece = make_text(style, text, {x, y}, size, font);
      x += piece.width;
      scene.add(std::move(piece));
    };
    add(before, Font::regular);
    add(token, Font::bold);
    add(after, Font::regular);
  }
};

/// The measure's values of the head on every prompt, with their items.
Distribution distribution_of(const FigureInput& input, StudyResults& results,
                             const std::string& measure, const HeadMeasureTable::Head& head) {
  const StudyTable& study = *input.evaluation->study;
  const MeasureTable table = chosen_table(input, true, measure);
  const std::size_t policy = chosen_policy(input, table);
  const std::size_t budget = chosen_budget(input, table);
  Distribution result;
  result.measure = described(measure);
  std::vector<double> values;
  for (std::size_t p = 0; p < table.prompts.size(); ++p) {
    const int item = table.items[table.at(policy, budget, p)];
    if (item < 0) continue;
    const auto value = results.head_value(item, study.measure(measure), head.layer, head.head);
    if (!value || !std::isfinite(*value)) continue;
    result.values.push_back({*value, table.prompts[p], item});
    values.push_back(*value);
  }
  result.mean = student_mean(values);
  std::stable_sort(result.values.begin(), result.values.end(),
                   [](const auto& a, const auto& b) { return a.value < b.value; });
  return result;
}

/// The roles of one query head (or of the mean over those of the head) on one prompt.
struct RolesOnPrompt {
  int query_head = -1;
  HeadRoles roles;
};

/// Roles from the study's measures, which are means over the query heads. They replace the roles of
/// query heads in a study that kept none.
std::vector<RolesOnPrompt> roles_of_measures(const std::vector<Distribution>& measures) {
  std::map<std::string, HeadRoles> of_prompt;
  for (const Distribution& one : measures) {
    for (const RoleInfo& role : role_catalog()) {
      if (one.measure.name != role.name) continue;
      for (const Distribution::Value& value : one.values)
        of_prompt[value.prompt].*role.value = value.value;
    }
  }
  std::vector<RolesOnPrompt> roles;
  for (const auto& [prompt, of_head] : of_prompt) roles.push_back({-1, of_head});
  return roles;
}

std::vector<RolesOnPrompt> kept_roles(StudyResults& results, const HeadMeasureTable::Head& head) {
  std::map<std::pair<std::string, int>, HeadRoles> kept;
  for (const StudyResults::Role& one : results.roles(head.layer, head.head)) {
    kept[{one.trace, one.query_head}].*role_catalog()[static_cast<std::size_t>(one.role)].value =
        one.value;
  }
  std::vector<RolesOnPrompt> roles;
  for (const auto& [key, of_head] : kept) roles.push_back({key.second, of_head});
  return roles;
}

/// The share of the prompts on which a head has each role: of the roles that are known anywhere,
/// and of heads without a name.
std::vector<RoleShare> role_shares(const std::vector<RolesOnPrompt>& all) {
  std::map<int, std::vector<const HeadRoles*>> of_query_head;
  for (const RolesOnPrompt& one : all) of_query_head[one.query_head].push_back(&one.roles);
  std::vector<RoleShare> shares;
  for (const auto& [query_head, prompts] : of_query_head) {
    for (std::size_t role = 0; role <= role_catalog().size(); ++role) {
      const bool name = role < role_catalog().size();
      long known = 0, has = 0;
      for (const HeadRoles* roles : prompts) {
        if (name && !std::isfinite(roles->*role_catalog()[role].value)) continue;
        ++known;
        const int strongest = strongest_role(*roles);
        has += !name                         ? strongest < 0
               : role_catalog()[role].beside ? rests_on_sink(*roles)
                                             : strongest == static_cast<int>(role);
      }
      if (known > 0) shares.push_back({query_head, role, known, wilson_share(has, known)});
    }
  }
  return shares;
}

/// The strongest attention of the head's query heads in one trace; a query of −1: there is none.
Context context_of(const std::filesystem::path& path, const HeadMeasureTable::Head& head,
                   Progress& progress) {
  const Trace trace(path);
  const ModelInfo& model = trace.model();
  if (head.layer >= model.num_layers || !trace.attends(head.layer) ||
      head.head >= trace.layer_model(head.layer).num_kv_heads) {
    throw WorkError(fmt::format("{}: has no head {}.{}; is it the trace of the study?",
                                path.string(), head.layer, head.head));
  }
  StateParts parts = StateParts::keys_only();
  parts.queries = parts.logsumexp = true;
  const LayerStates states = load_layer_states(trace, head.layer, parts, progress);
  const int group = trace.layer_model(head.layer).group_size();
  Context context;
  context.identity = trace.identity();
  for (int i = 0; i < group; ++i) {
    const int query_head = head.head * group + i;
    const auto q = static_cast<std::size_t>(query_head);
    const AttendedToken at = strongest_attention(
        view(states.queries[q]), view(states.keys[static_cast<std::size_t>(head.head)]),
        states.logsumexp[q], trace.attention(head.layer).of(query_head), trace.reach(head.layer),
        progress);
    if (at.query < 0 || at.attention <= context.at.attention) continue;
    context.at = at;
    context.query_head = query_head;
  }
  const std::vector<std::string>& text = trace.tokens().text;
  const auto printed = [&](int token) {
    if (text.empty())
      return fmt::format(" {}", trace.tokens().ids[static_cast<std::size_t>(token)]);
    return printable(text[static_cast<std::size_t>(token)]);
  };
  if (context.at.query < 0) return context;
  for (int t = std::max(0, context.at.token - kWordsAround); t < context.at.token; ++t)
    context.before.push_back(printed(t));
  for (int t = context.at.token + 1;
       t < std::min(trace.length(), context.at.token + 1 + kWordsAround); ++t) {
    context.after.push_back(printed(t));
  }
  context.token = printed(context.at.token);
  context.query = printed(context.at.query);
  return context;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const StudyTable& study = *input.evaluation->study;
  const std::vector<std::string> all = measures_by_head(study);
  const bool one_measure = input.choice("measure") != kAll;
  std::string first = one_measure ? chosen_head_measure(input, "measure") : all.front();
  ChosenHeads chosen = chosen_heads(input, first);
  const auto is_of_layers = [&] {
    return chosen.heads.heads.empty() || chosen.heads.heads.back().head < 0;
  };
  for (std::size_t m = 1; !one_measure && is_of_layers() && m < all.size(); ++m) {
    first = all[m];
    chosen = chosen_heads(input, first);
  }
  if (is_of_layers()) {
    throw WorkError(fmt::format(
        "{}: measure {} has no values of heads with {} at {}; choose another measure, or let the "
        "study go on",
        study.path.string(), first, chosen.table.policies[chosen.policy],
        chosen.table.budgets[chosen.budget]));
  }
  auto figure = std::make_shared<HeadProfile>();
  figure->head = {input.selection.layer, input.selection.head};
  const auto& heads = chosen.heads.heads;
  if (std::find(heads.begin(), heads.end(), figure->head) == heads.end()) {
    throw UsageError(fmt::format(
        "head {}.{}: figure head-profile: the study has no such head of measure {}; its heads go "
        "from {}.{} to {}.{}",
        figure->head.layer, figure->head.head, first, heads.front().layer, heads.front().head,
        heads.back().layer, heads.back().head));
  }
  StudyResults results(study.path, StudyResults::Checked{});
  std::vector<Distribution> measured;
  for (const std::string& measure : all) {
    progress.check();
    Distribution one = distribution_of(input, results, measure, figure->head);
    if (!one.values.empty()) measured.push_back(std::move(one));
  }
  for (const Distribution& one : measured) {
    if (!one_measure || one.measure.name == first) figure->measures.push_back(one);
  }
  if (figure->measures.empty()) {
    throw WorkError(fmt::format("{}: head {}.{} has no known value of measure {} with {} at {}",
                                study.path.string(), figure->head.layer, figure->head.head, first,
                                chosen.table.policies[chosen.policy],
                                chosen.table.budgets[chosen.budget]));
  }
  std::vector<RolesOnPrompt> roles = kept_roles(results, figure->head);
  const bool of_query_heads = !roles.empty();
  if (!of_query_heads) roles = roles_of_measures(measured);
  figure->roles = role_shares(roles);

  const Distribution& shown = figure->measures.front();
  const Distribution::Value& strongest = shown.values.back();
  const std::filesystem::path strongest_path = find_study_trace(study, strongest.prompt);
  std::string text = fmt::format(
      "Head {}.{} with {}, budget {}{}: values of each measure on {}, the least first; circles: "
      "deciles. Largest {}: {}{}.",
      figure->head.layer, figure->head.head, chosen.table.policies[chosen.policy],
      budget_text(chosen.table.budgets[chosen.budget]),
      chosen.table.block == "capture" ? "" : ", block " + chosen.table.block,
      prompts_text(chosen.table, static_cast<long>(shown.values.size())), shown.measure.title,
      strongest.prompt,
      strongest_path.empty() ? "" : " (kvloupe " + in_one_line(strongest_path.string(), 300) + ")");
  if (measured.size() > figure->measures.size() || figure->measures.size() > kMostPanels) {
    if (!one_measure)
      text += fmt::format(" The first {} of {} measures are drawn; the CSV has all.", kMostPanels,
                          measured.size());
  }
  if (figure->roles.empty()) {
    text += " The study measured no roles (measures role_sink and others).";
  } else if (of_query_heads) {
    std::vector<int> query_heads;
    for (const RoleShare& one : figure->roles) {
      if (query_heads.empty() || query_heads.back() != one.query_head)
        query_heads.push_back(one.query_head);
    }
    text += fmt::format(
        " Roles: the share of prompts on which a query head is named so (figure roles), with "
        "Wilson’s 95 % interval; from top to bottom query head{} {}{}.",
        query_heads.size() == 1 ? "" : "s", query_heads.front(),
        query_heads.size() == 1 ? "" : fmt::format(" to {}", query_heads.back()));
  } else {
    text +=
        " Roles: by the means over the head’s query heads, of the roles that the study measured; "
        "share of prompts with Wilson’s 95 % interval.";
  }
  figure->caption_text = text + closing_text(input);
  const bool wanted = input.choice("contexts") == "shown";
  if (!wanted) return std::make_unique<HeadProfile>(*figure);
  if (input.on_part) input.on_part(std::make_shared<HeadProfile>(*figure));

  // Reads each trace that is still where the study found it.
  std::vector<std::string> missing, changed;
  std::string problem;
  const bool replays = shown.measure.task == kReplayTask;
  progress.set_total(static_cast<long>(shown.values.size()));
  for (const Distribution::Value& value : shown.values) {
    progress.check();
    Progress own(progress, 1);
    const std::filesystem::path path =
        replays ? find_study_trace(study, value.prompt) : std::filesystem::path();
    if (path.empty()) {
      missing.push_back(value.prompt);
    } else {
      try {
        Context context = context_of(path, figure->head, own);
        context.prompt = value.prompt;
        context.item = value.item;
        if (context.identity != results.trace_identity(value.prompt))
          changed.push_back(value.prompt);
        if (context.at.query >= 0) figure->contexts.push_back(std::move(context));
      } catch (const FileError& error) {
        if (problem.empty()) problem = in_one_line(error.what(), 300);
      } catch (const WorkError& error) {
        if (problem.empty()) problem = in_one_line(error.what(), 300);
      }
    }
    own.finish();
  }
  std::stable_sort(
      figure->contexts.begin(), figure->contexts.end(),
      [](const Context& a, const Context& b) { return a.at.attention > b.at.attention; });
  if (!figure->contexts.empty()) {
    figure->caption_text +=
        " Below: in each prompt the largest attention of a query to one token other than token 0, "
        "full cache; bold: the attended token, right: the query’s token.";
  }
  if (!replays) {
    figure->caption_text += " Runs in the model have no traces, so no contexts are shown.";
  } else if (!missing.empty()) {
    figure->caption_text += fmt::format(
        " No contexts of {}: {} {} beside the results or in the study’s folder.",
        format_counted(static_cast<long>(missing.size()), "trace"),
        in_one_line(missing.front(), 100), missing.size() == 1 ? "is not" : "and others are not");
  }
  if (!changed.empty()) {
    figure->caption_text += fmt::format(
        " {} {} changed since the study (size or time of the last change).",
        in_one_line(changed.front(), 100),
        changed.size() == 1
            ? "has"
            : fmt::format("and {} more have", format_count(static_cast<long>(changed.size() - 1))));
  }
  if (!problem.empty()) figure->caption_text += " Not read: " + problem + ".";
  return std::make_unique<HeadProfile>(*figure);
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "head-profile", "One head over prompts",
      "The selected head of a study: each measure's values over the prompts by decile, the share "
      "of prompts on which it has each role (Wilson's intervals), and the contexts in which it "
      "pays the most attention. A click on a prompt opens its trace",
      compute, kTwoColumns, 1.4);
  info.unfit = why_no_heads;
  info.needs.head = true;
  const ChoiceInfo contexts =
      word_choice("contexts", "Contexts",
                  "The strongest attention in each prompt, with its text: read from the "
                  "study's traces",
                  {"shown", "hidden"});
  info.choices = {head_measure_choice("measure", "Measure",
                                      "One measure of the study, or all with values by head", kAll),
                  study_policy_choice(), study_budget_choice(), study_block_choice(), contexts};
  return info;
}

}  // namespace kvloupe::figure::head_profile_figure
