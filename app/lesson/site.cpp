#include "app/lesson/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

#include "analysis/base/system/output_file.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/lesson/text.h"
#include "app/lesson/written_lesson.h"
#include "version.h"

namespace kvloupe::lesson {

namespace document = figure::document;

namespace {

const std::vector<document::Link> kHome = {{"All lessons", "./index.html"}};

/// The words of links that lead nowhere on the site.
std::string without_page_links(const std::string& line) {
  static const std::regex link(R"(\[([^\]]*?)(?:\.md)?\]\((?!https?:)[^)]*\))");
  return std::regex_replace(line, link, "$1");
}

/// The cells of a line of a table. An escaped bar is a part of a cell.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  std::string cell;
  line.remove_prefix(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      cell += line[++i];
    } else if (line[i] == '|') {
      cells.emplace_back(trimmed(cell));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}

/// A cell without its marks of code; bold where it begins so.
Table::Cell plain_cell(const std::string& cell) {
  Table::Cell plain("");
  plain.best = cell.starts_with("**");
  plain.text = std::regex_replace(cell, std::regex("`|\\*\\*"), "");
  return plain;
}

class DocsReader {
 public:
  document::Document read(std::string_view markdown) {
    document_.in_turn = false;
    document_.script = false;
    int number = 0;
    std::istringstream in{std::string(markdown)};
    for (std::string line; std::getline(in, line);) take(++number, line);
    finish();
    return std::move(document_);
  }

 private:
  void take(int number, const std::string& line) {
    const bool row = line.starts_with("|");
    if (line.starts_with("# ")) {
      document_.title = line.substr(2);
    } else if (line.starts_with("#")) {
      finish();
      section_.title = trimmed(std::string_view(line).substr(line.find(' ')));
    } else if (row) {
      add_row(cells_of(line));
    } else {
      if (section_.table && !trimmed(line).empty()) finish();
      lines_.push_back({number, without_page_links(line)});
    }
  }

  void add_row(const std::vector<std::string>& cells) {
    const auto rule = [](const std::string& cell) {
      return cell.find_first_not_of("-: ") == std::string::npos;
    };
    if (!section_.table) {
      section_.table.emplace();
      for (const std::string& cell : cells)
        section_.table->columns.emplace_back(plain_cell(cell).text);
      return;
    }
    Table& table = *section_.table;
    const auto words = static_cast<std::size_t>(
        std::count_if(cells.begin(), cells.end(), [](const auto& cell) { return !cell.empty(); }));
    if (table.rows.empty() && words > 0 && std::all_of(cells.begin(), cells.end(), rule)) {
      for (std::size_t c = 0; c < std::min(cells.size(), table.columns.size()); ++c)
        table.columns[c].numbers = cells[c].ends_with(':');
      return;
    }
    Table::Row row;
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      row.cells.emplace_back(c < cells.size() ? plain_cell(without_page_links(cells[c])) : "");
    table.rows.push_back(std::move(row));
  }

  /// Ends a section where a title or another table begins.
  void finish() {
    section_.text = blocks_of(read_text(lines_));
    lines_.clear();
    if (!section_.title.empty() || !section_.text.empty() || section_.table)
      document_.sections.push_back(std::move(section_));
    section_ = {};
  }

  document::Document document_;
  document::Section section_;
  std::vector<Line> lines_;
};

}  // namespace

document::Document page_of_docs(std::string_view markdown) { return DocsReader().read(markdown); }

std::vector<std::string> write_site(const std::filesystem::path& folder,
                                    const std::vector<document::Link>& also,
                                    const figure::TextMetrics& fonts, Progress& progress,
                                    const std::function<void(const std::string&)>& said) {
  std::vector<std::string> problems;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    write_whole_file((folder / name).string(), bytes);
    said(name);
  };
  document::Document index;
  index.title = "Which entries of a cache stay: lessons with kvloupe";
  index.summary =
      "A language model keeps a key and a value of each token it has read. When this cache grows "
      "too large, a policy decides which entries leave. These pages show such decisions on a small "
      "model, with the numbers of a real run: point at a token, a head or a step to see its value.";
  index.script = false;
  document::Section lessons{.title = "Lessons"};
  for (const Lesson& lesson : find_lessons()) {
    progress.check();
    const std::string name = lesson.name + ".html";
    const LessonTraces traces = own_traces(lesson, progress);
    const WrittenLesson page = make_web_page(lesson, traces, fonts, progress, kHome);
    problems.insert(problems.end(), page.problems.begin(), page.problems.end());
    write(name, page.bytes);
    lessons.text.push_back(
        {.kind = document::TextBlock::Kind::numbered,
         .runs = {{.text = lesson.title, .link = "./" + name}, {.text = " – " + lesson.summary}},
         .number = static_cast<int>(lessons.text.size()) + 1});
  }
  lessons.commands = {"kvloupe lesson NAME    # opens one in the window, beside its task"};
  index.sections.push_back(std::move(lessons));
  std::vector<document::Link> pages = also;
  const std::pair<const char*, std::string_view> texts[] = {{"glossary.html", glossary_text()},
                                                            {"claims.html", claims_text()}};
  for (const auto& [name, text] : texts) {
    document::Document page = page_of_docs(text);
    page.links = kHome;
    page.foot = "kvloupe " KVLOUPE_VERSION;
    pages.emplace_back(page.title, name);
    write(name, document::write_page(page));
  }
  document::Section more{.title = "More"};
  for (const auto& [words, address] : pages) {
    more.text.push_back({.kind = document::TextBlock::Kind::bullet,
                         .runs = {{.text = words, .link = "./" + address}}});
  }
  index.sections.push_back(std::move(more));
  index.foot = "Made with kvloupe " KVLOUPE_VERSION ": kvloupe lesson --site FOLDER";
  write("index.html", document::write_page(index));
  return problems;
}

}  // namespace kvloupe::lesson
