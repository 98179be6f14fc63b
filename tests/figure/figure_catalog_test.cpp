// Every figure of the catalogue: sound scenes in every size and theme, valid files, the same text
// on every back end, the same bytes every time, and text dumps that stay as they were looked at.
//
// After a wanted change, look at the pictures, then write the baselines anew:
//   KVLOUPE_UPDATE_BASELINES=1 build/bin/test_figure_fast --gtest_filter='*Baseline*'

#include "analysis/policy/published.h"
#include "analysis/replay/typed_values.h"
#include "app/document/figure_file.h"
#include "tests/figure/baseline_fonts.h"
#include "tests/figure/dump_difference.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/page_reader.h"
#include "tests/figure/text_dump.h"
#include "tests/figure/texts_on_data.h"
#include "tests/figure/well_formed.h"
#include "tests/support/model_attribute.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

/// The words of all texts of a scene, in any order.
std::multiset<std::string> words_of(const std::string& text) {
  std::multiset<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

/// What the figures show, written once for all tests.
struct FiguresData {
  FiguresData() {
    test::SyntheticTraceOptions options{.layers = 3, .clusters = 4};
    trace = test::open_synthetic_trace(folder / "synthetic.h5", options);
    test::write_synthetic_closed_loop(folder / "closed.h5", options, "h2o", 24);
    closed = std::make_shared<const Trace>(folder / "closed.h5");
    test::SyntheticTraceOptions writing = options;  // as many tokens, of which it writes more
    writing.prompt_length = options.tokens() - 48;
    writing.generated = 48;
    std::filesystem::create_directory(folder / "looping");
    const auto loop = folder / "looping/synthetic.h5";
    test::write_synthetic_trace(loop, writing);
    test::make_loop(loop, writing.prompt_length + 12, 5);
    looping = std::make_shared<const Trace>(loop);
    options.lm_head = true;
    with_head = test::open_synthetic_trace(folder / "with-head.h5", options);
    evaluation = results_of(test::write_synthetic_evaluation(folder / "needle.json"));
    losses = results_of(test::write_synthetic_evaluation(folder / "loss.json", false));
    rescue = results_of(test::write_synthetic_rescue(folder / "rescue.json"));
    study = results_of(test::write_synthetic_study(folder / "study.sqlite"));
  }
  static std::shared_ptr<const Evaluation> results_of(const std::filesystem::path& file) {
    return test::results_of(file);
  }
  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const Trace> closed;     // the same tokens with h2o in the cache
  std::shared_ptr<const Trace> looping;    // its text ends in a loop
  std::shared_ptr<const Trace> with_head;  // the same with an output head
  std::shared_ptr<const Evaluation> evaluation, losses, rescue, study;
};

struct FigureCatalogTest : ::testing::TestWithParam<std::string> {
  static void SetUpTestSuite() { shared = std::make_unique<FiguresData>(); }
  static void TearDownTestSuite() { shared.reset(); }

  const FigureInfo& info() const { return find_figure(GetParam()); }
  MadeFigure make(request::FigureSettings settings = {}) const {
    return maker().make(info(), settings, test::unwatched);
  }
  /// A maker with the inputs of the figure.
  request::FigureMaker maker() const {
    if (info().needs.evaluation) return request::FigureMaker(results());
    if (info().needs.both_loops) return request::FigureMaker({shared->trace, shared->closed});
    if (GetParam() == "loops") return request::FigureMaker(shared->looping);
    return request::FigureMaker(info().unavailable(*shared->trace).empty() ? shared->trace
                                                                           : shared->with_head);
  }
  /// A maker with traces of a model with so many layers and three heads of three query heads.
  static request::FigureMaker maker_with(int layers) {
    test::SyntheticTraceOptions options{.layers = layers,
                                        .query_heads = 9,
                                        .heads = 3,
                                        .head_dim = 8,
                                        .hidden_size = 16,
                                        .prompt_length = 60,
                                        .generated = 6,
                                        .question = 8,
                                        .block = 12,
                                        .clusters = 4,
                                        .lm_head = true};
    const std::string name = std::to_string(layers) + "-layers";
    const auto file = shared->folder / (name + ".h5"),
               loop = shared->folder / (name + "-closed.h5");
    if (!std::filesystem::exists(file)) {
      test::write_synthetic_trace(file, options);
      test::write_synthetic_closed_loop(loop, options, "h2o", 24);
    }
    const auto full = std::make_shared<const Trace>(file);
    if (!find_figure(::testing::TestWithParam<std::string>::GetParam()).needs.both_loops)
      return request::FigureMaker(full);
    return request::FigureMaker({full, std::make_shared<const Trace>(loop)});
  }

  /// The default choices, and each value of each choice, of a policy with a long name.
  std::vector<request::FigureSettings> with_each_choice(std::optional<PolicySpec> policy_b) const {
    std::vector<request::FigureSettings> all(1);
    all.back().policy = parse_policy("h2o+recent(20%)+sinks(2)");
    all.back().policy_b = std::move(policy_b);
    for (const ChoiceInfo& choice : info().choices) {
      for (const std::string& value : choice.values) {
        all.push_back(all.front());
        all.back().choices[choice.name] = value;
      }
    }
    return all;
  }

  const std::shared_ptr<const Evaluation>& results() const {
    if (GetParam() == "perplexity-budget") return shared->losses;  // its choices are of these
    for (const auto* one : {&shared->evaluation, &shared->rescue}) {
      if (info().unfit(**one).empty()) return *one;
    }
    return shared->study;
  }

  static inline std::unique_ptr<FiguresData> shared;
};

TEST_P(FigureCatalogTest, AsAPageItSaysWhatItSaysAtEveryPlace) {
  const MadeFigure made = make();
  const std::string page = file_of(info(), made, FileFormat::html, {}, test::fonts());
  EXPECT_THAT(test::why_not_well_formed(page), IsEmpty());
  EXPECT_LT(page.size(), 1'000'000U);
  EXPECT_THAT(page, HasSubstr("<dt>figure</dt><dd>" + GetParam() + "</dd>"));
  const nlohmann::json figure = test::page_data(page)["figures"][0];
  const std::vector<std::string> texts = test::page_texts(figure);
  const Scene scene = page_of(info(), made, {}, test::fonts());
  std::vector<std::string> wanted;
  for (const PickPoints& set : scene.point_sets) {
    for (std::size_t i = 0; i < set.points.size(); ++i)
      wanted.push_back(made.figure->value_text(set.target(i)));
  }
  for (const PickLine& line : scene.lines) wanted.push_back(made.figure->value_text(line.target));
  for (const PickRegion& region : scene.regions)
    wanted.push_back(made.figure->value_text(region.target));
  ASSERT_GE(texts.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(texts[i], wanted[i]) << i;
  // A value picked in the middle of a plot is in its table.
  std::size_t start = wanted.size();
  std::vector<std::size_t> starts;
  for (const auto& table : figure["geometry"][0]["tables"]) {
    EXPECT_EQ(table[2], 1) << "nothing is thinned out at this size";
    starts.push_back(start);
    start += table[1].get<std::size_t>() * table[4].get<std::size_t>();
  }
  EXPECT_EQ(texts.size(), start);
  for (std::size_t a = 0; a < scene.axes.size(); ++a) {
    const int at = figure["geometry"][0]["axes"][a]["t"].get<int>();
    if (at < 0) continue;
    Scene plain;  // no points or regions over the plot
    plain.axes = {scene.axes[a]};
    const Rect& plot = scene.axes[a].plot;
    const Point place{plot.x + 0.37 * plot.width, plot.y + 0.61 * plot.height};
    const auto target = plain.pick(place);
    ASSERT_TRUE(target);
    const auto table = figure["geometry"][0]["tables"][at];
    const Point data = scene.axes[a].to_data(place);
    const auto cell = [&](const Axis& axis, double value, int first) {
      return axis.meaning == AxisMeaning::value ? 0 : static_cast<int>(std::floor(value)) - first;
    };
    const int column = cell(scene.axes[a].x, data.x, table[0].get<int>());
    const int row = cell(scene.axes[a].y, data.y, table[3].get<int>());
    EXPECT_EQ(texts.at(starts[at] + static_cast<std::size_t>(row * table[1].get<int>() + column)),
              made.figure->value_text(*target));
  }
}

/// The heads that a figure's numbers name: those of the columns layer and head, those of query
/// heads, and lines that are called "head 2". Rows without any number do not count.
std::set<std::pair<int, int>> heads_in_numbers(const Figure& figure, int group, int layer) {
  std::set<std::pair<int, int>> heads;
  for (const test::CsvRow& row : test::csv_rows(figure)) {
    const auto number = [&](const std::string& column) {
      const auto found = row.find(column);
      return found == row.end() || found->second.empty() ? -1 : std::stoi(found->second);
    };
    const bool has_value = std::any_of(row.begin(), row.end(), [](const auto& cell) {
      static const std::set<std::string> kPlaces{"layer", "head",   "query_head", "policy", "step",
                                                 "token", "budget", "panel",      "series", "role",
                                                 "line",  "sigma",  "distance",   "named"};
      return !kPlaces.contains(cell.first) && !cell.second.empty() && cell.second != "nan";
    });
    if (!has_value) continue;
    const auto of = row.find("of");  // of distributions: their heads are query heads here
    const bool of_queries = of != row.end() && of->second == "Queries";
    if (const int head = number("head"); head >= 0)
      heads.emplace(number("layer"), of_queries ? head / group : head);
    if (const int head = number("query_head"); head >= 0)
      heads.emplace(number("layer"), head / group);
    if (const auto line = row.find("line"); line != row.end() && line->second.starts_with("head "))
      heads.emplace(layer, std::stoi(line->second.substr(5)));
  }
  return heads;
}

/// Where a figure has numbers of single heads, the pointer finds the heads.
TEST_P(FigureCatalogTest, TheHeadsOfItsMarksAreFound) {
  if (GetParam() == "drift") return;     // its numbers are of heads, its curves of layers
  if (GetParam() == "frontier") return;  // its numbers are of all heads, its picture of one
  const bool of_trace = !info().needs.evaluation;
  const int group = of_trace ? shared->trace->model().group_size() : 1;
  for (const request::FigureSettings& settings : with_each_choice(parse_policy("keydiff"))) {
    const MadeFigure made = make(settings);
    const auto of_layer = std::find_if(made.settings.begin(), made.settings.end(),
                                       [](const auto& one) { return one.first == "layer"; });
    const auto heads = heads_in_numbers(
        *made.figure, group, of_layer == made.settings.end() ? 0 : std::stoi(of_layer->second));
    if (heads.size() < 2) continue;
    std::string choices;
    for (const auto& [name, value] : settings.choices) choices += " " + name + "=" + value;
    SCOPED_TRACE(GetParam() + choices);
    const Scene scene = page_of(info(), made, {}, test::fonts());
    std::set<std::pair<int, int>> found;
    const auto look = [&](Point at) {
      const auto target = scene.pick(at);
      if (target && target->layer >= 0 && target->head >= 0)
        found.emplace(target->layer, target->head);
      return target.has_value() && target->head >= 0;
    };
    for (const PickLine& line : scene.lines) {
      for (std::size_t i = 0; i + 1 < line.points.size(); ++i) {
        const Point a = line.points[i], b = line.points[i + 1];
        const Point middle{(a.x + b.x) / 2, (a.y + b.y) / 2};
        if (!line.plot.contains(middle)) continue;
        EXPECT_TRUE(look(middle));
      }
      found.emplace(line.target.layer, line.target.head);  // another may lie on it
    }
    for (const PickRegion& region : scene.regions) look(region.rect.centre());
    for (const PickPoints& dots : scene.point_sets) {
      if (dots.targets.empty()) continue;  // of tokens
      for (std::size_t i = 0; i < dots.points.size(); ++i) {
        EXPECT_TRUE(look(dots.points[i]));
        found.emplace(dots.targets[i].layer, dots.targets[i].head);  // another may lie on it
      }
    }
    for (const Axes& axes : scene.axes) {
      if (axes.x.meaning != AxisMeaning::head) continue;
      for (const auto& [layer, head] : heads) look(axes.to_page(head + 0.5, layer + 0.5));
    }
    for (const auto& head : heads) {
      EXPECT_TRUE(found.contains(head)) << "layer " << head.first << ", head " << head.second;
    }
  }
}

TEST_P(FigureCatalogTest, ScenesAreSoundInEverySizeThemeAndChoice) {
  std::vector<request::FigureSettings> all = with_each_choice({});
  all.push_back(all.front());
  all.back().policy_b = parse_policy("keydiff");
  all.push_back(all.front());
  all.back().budget = parse_budget("100%");
  all.push_back(all.front());
  all.back().tokens = {{7, 7}};
  for (const request::FigureSettings& settings : all) {
    const MadeFigure made = make(settings);
    for (const char* size : {"", "85x60mm", "178x120mm", "1600x900px", "40x40mm"}) {
      for (const Theme theme : {Theme::light, Theme::dark}) {
        FileOptions options{.theme = theme};
        if (*size != '\0') options.size = parse_page_size(size);
        const Scene scene = page_of(info(), made, options, test::fonts());
        EXPECT_THAT(scene_problems(scene), IsEmpty()) << GetParam() << " at " << size;
        EXPECT_FALSE(scene.items.empty());
        if (options.size) {
          EXPECT_NEAR(scene.width, options.size->width, 1e-9);
          EXPECT_NEAR(scene.height, options.size->height, 1e-9);
        }
      }
    }
  }
}

/// The colour under a point: of what the first `count` items paint there, fills and images.
Colour ground_at(const Scene& scene, std::size_t count, Point at) {
  Colour ground = scene.background;
  const auto paint = [&](Colour top) {
    const auto mixed = [&](std::uint8_t a, std::uint8_t b) {
      return static_cast<std::uint8_t>(
          std::lround((a * top.alpha + b * (255 - top.alpha)) / 255.0));
    };
    ground = {mixed(top.red, ground.red), mixed(top.green, ground.green),
              mixed(top.blue, ground.blue)};
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto* path = std::get_if<Path>(&scene.items[i]); path && path->fill) {
      // Rectangles, of which grounds are made: four corners and no curve.
      std::vector<Point> corners;
      std::size_t next = 0;
      for (const PathVerb verb : path->verbs) {
        if (verb == PathVerb::move) corners.clear();
        if (verb == PathVerb::move || verb == PathVerb::line)
          corners.push_back(path->points[next++]);
        if (verb == PathVerb::curve) next += 3;
        if (verb != PathVerb::close || corners.size() != 4) continue;
        const Rect box{corners[0].x, corners[0].y, corners[2].x - corners[0].x,
                       corners[2].y - corners[0].y};
        if (box.contains(at)) paint(*path->fill);
      }
    } else if (const auto* image = std::get_if<Image>(&scene.items[i]);
               image && image->rect.contains(at)) {
      const auto cell = [](double share, int cells) {
        return static_cast<std::size_t>(std::clamp(static_cast<int>(share * cells), 0, cells - 1));
      };
      const std::size_t x = cell((at.x - image->rect.x) / image->rect.width, image->pixels->width);
      const std::size_t y =
          cell((at.y - image->rect.y) / image->rect.height, image->pixels->height);
      const std::uint8_t* pixel =
          &image->pixels->rgba[(y * static_cast<std::size_t>(image->pixels->width) + x) * 4];
      paint({pixel[0], pixel[1], pixel[2], pixel[3]});
    }
  }
  return ground;
}

TEST_P(FigureCatalogTest, EveryTextReadsOnWhatItStandsOn) {
  for (const request::FigureSettings& settings : with_each_choice(parse_policy("keydiff"))) {
    const MadeFigure made = make(settings);
    for (const Theme theme : kThemes) {
      // No ink has more than 4.6 on a middle grey: numbers on the cells of a map have at least 4.
      const double least = theme == Theme::high_contrast ? 7.0 : 4.0;
      FileOptions options{.theme = theme};
      options.title = options.caption = true;
      const Scene scene = page_of(info(), made, options, test::fonts());
      EXPECT_THAT(scene_problems(scene), IsEmpty());
      for (std::size_t i = 0; i < scene.items.size(); ++i) {
        const auto* text = std::get_if<Text>(&scene.items[i]);
        if (text == nullptr) continue;
        const Colour ground = ground_at(scene, i, text->bounds().centre());
        EXPECT_GE(contrast(text->colour, ground), least)
            << text->text << " of " << GetParam() << ", theme " << theme_name(theme);
      }
    }
  }
}

/// The names of axes and colour bars that are cut although their side has room for two lines.
std::vector<std::string> cut_names(const Scene& scene, const Style& style) {
  std::vector<std::string> cut;
  for (const Text& text : test::items_of<Text>(scene)) {
    if (!text.text.ends_with("…")) continue;
    const std::string start = text.text.substr(0, text.text.size() - std::string("…").size());
    for (const Axes& axes : scene.axes) {
      for (const auto& [name, side] :
           {std::pair{axes.x.label, axes.plot.width}, {axes.y.label, axes.plot.height}}) {
        const double width = style.fonts->width(name, Font::regular, style.text);
        if (!start.empty() && name.find(start) != std::string::npos && width < 1.8 * side)
          cut.push_back(name + " as " + text.text);
      }
    }
  }
  return cut;
}

/// A column and a page of a paper, flat models and deep ones, each figure as high as it wants to
/// be.
TEST_P(FigureCatalogTest, OnPaperTextsStandClearOfDataInFlatAndDeepModels) {
  for (const int layers : {4, 30}) {
    const request::FigureMaker from = info().needs.evaluation ? maker() : maker_with(layers);
    for (const request::FigureSettings& settings : with_each_choice(parse_policy("keydiff"))) {
      const MadeFigure made = from.make(info(), settings, test::unwatched);
      for (const double width : {85.0, 170.0}) {
        FileOptions options{.width = width * kPointsPerMillimetre};
        const Scene scene = page_of(info(), made, options, test::fonts());
        Style style = make_style(test::fonts());
        style.colours.paper = scene.background;
        std::string choices;
        for (const auto& [name, value] : settings.choices) choices += " " + name + "=" + value;
        SCOPED_TRACE(GetParam() + choices + ", " + std::to_string(layers) + " layers, " +
                     std::to_string(static_cast<int>(width)) + " mm");
        EXPECT_THAT(scene_problems(scene), IsEmpty());
        EXPECT_THAT(texts_on_data(scene, style), IsEmpty());
        EXPECT_THAT(cut_names(scene, style), IsEmpty());
      }
    }
    if (info().needs.evaluation) break;  // has no layers of its own
  }
}

/// "12MB" and "25%bytes" mean entries in every figure that has a budget.
TEST_P(FigureCatalogTest, ABudgetInBytesIsOneOfEntries) {
  if (info().needs.evaluation || !info().needs.budget()) return;
  request::FigureSettings bytes, entries;
  bytes.budget = parse_budget("50%bytes");
  entries.budget.value =
      static_cast<long>(budget_entries(bytes.budget, *maker().inputs().traces.front()));
  for (const ChoiceInfo& choice : info().choices) {
    if (choice.kind != ChoiceKind::budgets) continue;
    bytes.choices[choice.name] = "50%bytes";
    entries.choices[choice.name] = entries.budget.text();
  }
  const auto numbers = [&](const request::FigureSettings& settings) {
    std::ostringstream out;
    CsvWriter csv(out);
    make(settings).figure->write_csv(csv);
    std::string text = out.str();
    for (std::size_t at; (at = text.find("50%bytes")) != std::string::npos;)
      text.replace(at, 8, entries.budget.text());  // as the loss table writes its budgets
    return text;
  };
  // Seconds differ; few bits hold more in the same bytes; a prefix has a full cache of its own.
  if (GetParam() == "cost" || GetParam() == "frontier" || GetParam() == "attention-lost") {
    EXPECT_FALSE(numbers(bytes).empty());
  } else {
    EXPECT_EQ(numbers(bytes), numbers(entries));
  }
}

/// A policy B that is not in the picture is not in the words under it.
TEST_P(FigureCatalogTest, PolicyBIsInTheWordsWhereItIsInThePicture) {
  if (info().needs.evaluation || !info().needs.policies()) return;
  request::FigureSettings one, two;
  one.choose_policy_b = false;
  two.policy_b = parse_policy("sink(3)");
  const MadeFigure made = make(two);
  std::string words = made.figure->caption();
  for (const auto& [name, value] : made.settings) words += " " + name + " " + value;
  const std::string picture = write_text_dump(page_of(info(), made, {}, test::fonts()));
  const bool drawn = info().needs.policy_b ||
                     picture != write_text_dump(page_of(info(), make(one), {}, test::fonts()));
  EXPECT_EQ(words.find("sink(3)") != std::string::npos, drawn) << words;
  EXPECT_EQ(request::draws_policy_b(info(), {}), drawn);
}

TEST_P(FigureCatalogTest, FilesAreValidAndTheSameEveryTime) {
  FileOptions options{.caption = true};
  const MadeFigure made = make();
  const MadeFigure again = make();
  for (const auto& [format, start] : {std::pair{FileFormat::svg, "<?xml"},
                                      {FileFormat::pdf, "%PDF-"},
                                      {FileFormat::png, "\x89PNG"},
                                      {FileFormat::csv, "# figure: "}}) {
    const std::string bytes = file_of(info(), made, format, options, test::fonts());
    EXPECT_THAT(bytes, StartsWith(start));
    EXPECT_GT(bytes.size(), 200U);
    EXPECT_EQ(bytes, file_of(info(), again, format, options, test::fonts()))
        << GetParam() << " differs from itself";
  }
  // The settings are in the file.
  EXPECT_THAT(
      file_of(info(), made, FileFormat::svg, options, test::fonts()),
      HasSubstr(info().needs.evaluation
                    ? "<entry name=\"results\">" + results()->path.filename().string() + "</entry>"
                : info().needs.both_loops ? "<entry name=\"trace\">synthetic.h5, closed.h5</entry>"
                : info().unavailable(*shared->trace).empty()
                    ? "<entry name=\"trace\">synthetic.h5</entry>"
                    : "<entry name=\"trace\">with-head.h5</entry>"));
  EXPECT_THAT(file_of(info(), made, FileFormat::png, options, test::fonts()),
              HasSubstr(info().needs.evaluation ? results()->path.filename().string() : ".h5"));
}

TEST_P(FigureCatalogTest, SvgIsXmlAndTextIsTextOnEveryBackEnd) {
  const MadeFigure made = make();
  const Scene scene = page_of(info(), made, {}, test::fonts());
  std::string spoken;
  for (const Text& text : test::items_of<Text>(scene)) spoken += text.text + "\n";
  const auto svg = shared->folder / "figure.svg";
  const auto pdf = shared->folder / "figure.pdf";
  const auto out = shared->folder / "out.txt";
  std::ofstream(svg, std::ios::binary) << file_of(info(), made, FileFormat::svg, {}, test::fonts());
  std::ofstream(pdf, std::ios::binary) << file_of(info(), made, FileFormat::pdf, {}, test::fonts());
  const std::string parse =
      "python3 -c \"import sys, xml.etree.ElementTree as t; "
      "print('\\n'.join(e.text or '' for e in t.parse(sys.argv[1]).iter() "
      "if e.tag.endswith('}text')))\" " +
      svg.string() + " > " + out.string();
  ASSERT_EQ(std::system(("PYTHONIOENCODING=utf-8 " + parse).c_str()), 0)
      << "not well-formed XML (or no python3)";
  EXPECT_EQ(words_of(test::file_text(out)), words_of(spoken));
  ASSERT_EQ(std::system(("pdftotext -raw " + pdf.string() + " " + out.string()).c_str()), 0)
      << "no pdftotext";
  const std::string in_pdf = test::file_text(out);
  // How pdftotext joins neighbours into lines is its own affair; letters must be all there.
  const auto letters = [](const std::string& text) {
    std::multiset<char> found;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c))) found.insert(c);
    }
    return found;
  };
  EXPECT_EQ(letters(in_pdf), letters(spoken));
}

TEST_P(FigureCatalogTest, Baseline) {
  request::FigureSettings settings{.policy = parse_policy("h2o+recent(20%)+sinks(2)")};
  const std::string dump = write_text_dump(page_of(info(), make(settings), {}, test::fonts()));
  const std::filesystem::path path =
      std::filesystem::path(KVLOUPE_SOURCE_DIR) / "tests/figure/baselines" / (GetParam() + ".txt");
  if (std::getenv("KVLOUPE_UPDATE_BASELINES") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << dump;
    return;
  }
  if (!test::has_fonts_of_the_baselines(test::fonts())) GTEST_SKIP() << test::kOtherFonts;
  EXPECT_EQ(test::dump_difference(test::file_text(path), dump), "")
      << "look at the figure; if the change is wanted, see the top of this file";
}

/// So that baselines are compared where they can be.
TEST(Baselines, AreComparedOnDebian12) {
  const std::string text = test::file_text("/etc/os-release");
  if (text.find("VERSION_ID=\"12\"") == std::string::npos) GTEST_SKIP() << "not Debian 12";
  const TextMetrics metrics;
  EXPECT_TRUE(test::has_fonts_of_the_baselines(metrics));
}

/// A baseline would not be one if it let a wrong figure pass, or failed by the last digit.
TEST_P(FigureCatalogTest, BaselinesSeeWhatIsWrongAndNothingElse) {
  const Scene scene = page_of(info(), make(), {}, test::fonts());
  const std::string dump = write_text_dump(scene);
  const auto difference = [&](const Scene& other) {
    return test::dump_difference(dump, write_text_dump(other));
  };
  Scene noisy = scene;
  int sign = 1;
  for (Item& item : noisy.items) {
    const auto shake = [&](std::vector<Point>& points) {
      for (Point& p : points) p = {p.x + 1e-4 * (sign = -sign), p.y - 1e-4 * sign};
    };
    if (Path* path = std::get_if<Path>(&item)) shake(path->points);
    if (Markers* markers = std::get_if<Markers>(&item)) shake(markers->points);
  }
  EXPECT_EQ(difference(noisy), "");
  for (std::size_t i = 0; i < scene.items.size(); ++i) {
    Scene wrong = scene;
    if (Path* path = std::get_if<Path>(&wrong.items[i])) {
      if (path->points.empty()) continue;
      for (Point& p : path->points) p.y += 3.0;
    } else if (Markers* markers = std::get_if<Markers>(&wrong.items[i])) {
      if (markers->points.empty()) continue;
      for (Point& p : markers->points) p.x += 3.0;
    } else if (Image* image = std::get_if<Image>(&wrong.items[i])) {
      auto pixels = std::make_shared<Pixels>(*image->pixels);
      for (const auto& [y, x] : test::cells((pixels->height + 7) / 8, (pixels->width + 7) / 8)) {
        std::uint8_t* p = &pixels->rgba[static_cast<std::size_t>(y * pixels->width + x) * 4];
        for (int c = 0; c < 3; ++c) p[c] = static_cast<std::uint8_t>(p[c] < 128 ? 200 : 60);
        p[3] = 255;
      }
      image->pixels = pixels;
    } else {
      continue;
    }
    EXPECT_NE(difference(wrong), "") << "item " << i;
  }
}

TEST_P(FigureCatalogTest, WrongSettingsAreUsageErrors) {
  const auto refused = [&](auto change) {
    request::FigureSettings settings;
    change(settings);
    EXPECT_THROW(make(settings), UsageError);
  };
  refused([](request::FigureSettings& s) { s.choices["nonsense"] = "1"; });
  if (info().needs.evaluation) return;  // has no layers
  refused([](request::FigureSettings& s) { s.layer = 3; });
  refused([](request::FigureSettings& s) { s.layer = -1; });
  refused([](request::FigureSettings& s) { s.head = 2; });
  refused([](request::FigureSettings& s) { s.query_head = 4; });
  refused([](request::FigureSettings& s) { s.head = 0, s.query_head = 3; });
  refused([](request::FigureSettings& s) { s.step = 100; });
  refused([](request::FigureSettings& s) { s.tokens = {{0, 104}}; });
  refused([](request::FigureSettings& s) { s.tokens = {{9, 3}}; });
}

TEST_P(FigureCatalogTest, ACancelledFigureStops) {
  Progress progress;
  progress.cancel();
  EXPECT_THROW(maker().make(info(), {}, progress), Cancelled);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const FigureInfo& info : figure_catalog()) all.push_back(info.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, FigureCatalogTest, ::testing::ValuesIn(names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(FigureCatalog, DefaultListsAreOfPoliciesAsTheirAuthorsRanThem) {
  const PolicySpec keydiff = parse_policy("keydiff");
  int lists = 0;
  for (const FigureInfo& info : figure_catalog()) {
    for (const ChoiceInfo& choice : info.choices) {
      if (choice.kind != ChoiceKind::policies) continue;
      ++lists;
      for (const PolicySpec& spec : parse_policies(choice.values.front(), keydiff, nullptr)) {
        for (const PublishedPolicy& policy : published_policies()) {
          EXPECT_NE(spec.text(), policy.plain) << info.name << ": plain " << policy.method;
        }
      }
    }
  }
  EXPECT_GT(lists, 10);
  // A comparison without a policy B takes H2O with its recent half, too.
  const FigureInfo& diff = find_figure("policy-diff");
  const request::FigureRequest made = request::make_request(diff, {}, {});
  ASSERT_TRUE(made.policy_b);
  EXPECT_EQ(made.policy_b->text(), "h2o+recent(50%)");
}

TEST(FigureCatalog, AWrongNameGetsTheNearest) {
  EXPECT_THAT(test::error_of<UsageError>([&] { find_figure("similarty"); }),
              HasSubstr("'similarity'"));
}

TEST(PageSize, ReadsBothUnitsAndRefusesTheRest) {
  EXPECT_NEAR(parse_page_size("85x60mm").width, 240.94, 0.01);
  EXPECT_NEAR(parse_page_size("1600x900px").width, 600.0, 1e-9);
  for (const char* wrong : {"", "85", "85x", "85x60", "85x60cm", "x60mm", "85x-60mm", "1x1mm",
                            "9999x60mm", "nanx60mm", "85x60mm "}) {
    EXPECT_THROW(parse_page_size(wrong), UsageError) << wrong;
  }
}

}  // namespace
}  // namespace kvloupe::figure
