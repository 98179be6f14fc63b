#include "app/lesson/lesson.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/policy/kit/spec.h"
#include "app/demo/demo_trace.h"
#include "app/job/assets.h"
#include "app/lesson/page_view.h"

namespace kvloupe::lesson {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kMostBytes = 1 << 20;
constexpr std::size_t kMostPages = 100;
constexpr int kMostGenerated = 4096;
constexpr int kLargestBlock = 1 << 20;
constexpr std::size_t kMostClosed = 8;

const std::vector<std::string>& header_keys() {
  static const std::vector<std::string> keys = {"prompt", "generate", "block",
                                                "closed", "writes",   "needs"};
  return keys;
}

/// The lines of a text without their ends; a byte order mark is not part of the first.
std::vector<Line> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Line> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back({static_cast<int>(lines.size()) + 1, std::move(line)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

int whole_number(const std::string& text, int least, int most, const Line& line,
                 const std::string& what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw TextError{line.number, fmt::format("{}: {} is not a whole number from {} to {}", what,
                                             shown_word(text), least, most)};
  }
  return value;
}

TraceNeed read_need(const std::string& word, const Line& line) {
  if (word.starts_with("segment:") && word.size() > 8) return {"segment", word.substr(8)};
  if (word.starts_with("tokens>="))
    return {"tokens", "", whole_number(word.substr(8), 1, 1 << 30, line, "needs: tokens>=N")};
  for (const char* plain : {"generated", "closed", "predictions", "output_weight"})
    if (word == plain) return {word};
  throw TextError{
      line.number,
      fmt::format("needs: {} is not one of segment:NAME, generated, closed, predictions, "
                  "output_weight, tokens>=N",
                  shown_word(word))};
}

/// One `key: value` of the head.
void read_header(const Line& line, Lesson& lesson) {
  const std::size_t colon = line.text.find(':');
  if (colon == std::string::npos) {
    throw TextError{
        line.number,
        fmt::format("{} is not 'key: value'; end the head of a lesson with a blank line",
                    shown_word(line.text))};
  }
  const std::string key(trimmed(line.text.substr(0, colon)));
  const std::string value(trimmed(line.text.substr(colon + 1)));
  LessonRun& run = lesson.run;
  if (std::find(header_keys().begin(), header_keys().end(), key) == header_keys().end()) {
    throw TextError{line.number, fmt::format("the key {} does not exist; the nearest is '{}'",
                                             shown_word(key), nearest_word(key, header_keys()))};
  }
  if (value.empty()) throw TextError{line.number, key + ": the value is missing"};
  if (key == "prompt") {
    const bool plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_';
    });
    if (!plain) {
      throw TextError{
          line.number,
          fmt::format("prompt: {} is not the name of a prompt (letters, digits, - and _; "
                      "without .txt)",
                      shown_word(value))};
    }
    run.prompt = value;
  } else if (key == "generate") {
    run.generate = whole_number(value, 0, kMostGenerated, line, key);
  } else if (key == "block") {
    run.block = whole_number(value, 1, kLargestBlock, line, key);
  } else if (key == "closed" || key == "writes") {
    // The budget is the last word; a spec may hold spaces.
    const std::size_t space = value.find_last_of(" \t");
    if (space == std::string::npos)
      throw TextError{line.number, key + ": write a policy and a budget, such as h2o 25%"};
    if (run.closed.size() >= kMostClosed)
      throw TextError{line.number, fmt::format("{}: more than {} runs", key, kMostClosed)};
    ClosedRun closed{std::string(trimmed(value.substr(0, space))), value.substr(space + 1),
                     key == "writes"};
    try {
      closed.policy = demo::normal_policy(closed.policy);
      parse_budget(closed.budget).resolve(1);
    } catch (const UsageError& error) {
      throw TextError{line.number, key + ": " + error.what()};
    }
    run.closed.push_back(std::move(closed));
  } else {
    std::stringstream words(value);
    for (std::string word; std::getline(words, word, ',');)
      lesson.needs.push_back(read_need(std::string(trimmed(word)), line));
  }
}

bool is_page_title(const Line& line) { return line.text.starts_with("## ") || line.text == "##"; }
bool is_fence(const Line& line) { return line.text.starts_with("```"); }

/// The condition of a task, and its text.
Task read_task(const std::vector<Line>& lines, int fence) {
  Task task;
  task.line = fence;
  std::vector<Line> text;
  bool found = false;
  for (const Line& line : lines) {
    if (!line.text.starts_with("when:")) {
      if (found && !trimmed(line.text).empty())
        throw TextError{line.number, "a task must end after the line `when:`"};
      text.push_back(line);
      continue;
    }
    if (found) throw TextError{line.number, "a task has only one line `when:`"};
    found = true;
    const std::size_t from = std::min(line.text.find_first_not_of(" \t", 5), line.text.size());
    try {
      task.when = Expression(std::string_view(line.text).substr(from));
    } catch (const ExpressionError& error) {
      throw TextError{line.number,
                      fmt::format("when, column {}: {}", from + error.column, error.what())};
    }
    if (task.when.is_text())
      throw TextError{line.number, "when: a condition must be a number, not a text"};
  }
  if (!found) {
    throw TextError{fence, "the task has no line `when: EXPRESSION`, which says when it is done"};
  }
  task.text = read_text(text);
  if (task.text.empty()) throw TextError{fence, "the task has no text"};
  return task;
}

/// Reads the pages of one lesson; a page's first problem is its error, and the next is read anew.
class PageReader {
 public:
  explicit PageReader(const fs::path& path) : path_(path) {}

  /// `lines` from the title to the line before the next title.
  Page read(const std::vector<Line>& lines) const {
    Page page;
    page.line = lines.front().number;
    page.title =
        lines.front().text == "##" ? "" : std::string(trimmed(lines.front().text.substr(3)));
    if (page.title.empty()) note(page, {page.line, "the page has no title"});
    std::vector<Line> text;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      if (!is_fence(lines[i])) {
        text.push_back(lines[i]);
        continue;
      }
      std::size_t end = i + 1;
      while (end < lines.size() && trimmed(lines[end].text) != "```") ++end;
      try {
        if (end == lines.size()) {
          throw TextError{lines[i].number, fmt::format("the block {} is not closed by ```",
                                                       shown_word(lines[i].text))};
        }
        read_fence(lines[i],
                   {lines.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    lines.begin() + static_cast<std::ptrdiff_t>(end)},
                   page);
      } catch (const TextError& error) {
        note(page, error);
      }
      text.push_back({lines[i].number, ""});  // a fence ends a paragraph
      i = end;
    }
    try {
      page.text = read_text(text);
      if (page.text.empty() && !page.task && page.view_json.empty() && page.error.empty())
        throw TextError{page.line, "the page is empty"};
    } catch (const TextError& error) {
      note(page, error);
    }
    return page;
  }

 private:
  void note(Page& page, const TextError& error) const {
    if (page.error.empty()) page.error = at_line(path_, error.line, error.problem);
  }

  static void read_fence(const Line& fence, const std::vector<Line>& lines, Page& page) {
    const std::string kind(trimmed(fence.text.substr(3)));
    if (kind == "view") {
      if (page.view_line > 0) throw TextError{fence.number, "a page has only one view"};
      page.view_line = fence.number + 1;
      std::string json;
      for (const Line& line : lines) json += line.text + "\n";
      page.step_slider = check_view(json, page.view_line);
      page.view_json = std::move(json);
    } else if (kind == "task") {
      if (page.task) throw TextError{fence.number, "a page has only one task"};
      page.task = read_task(lines, fence.number);
    } else {
      throw TextError{fence.number,
                      fmt::format("a block is ```view or ```task, not {}", shown_word(kind))};
    }
  }

  const fs::path& path_;
};

/// The head: title, keys, summary; `lines` up to the first page.
void read_head(const std::vector<Line>& lines, Lesson& lesson) {
  if (lines.empty() || !lines.front().text.starts_with("# ") ||
      trimmed(lines.front().text.substr(2)).empty()) {
    throw TextError{1, "a lesson must start with its title: # Title"};
  }
  lesson.title = trimmed(lines.front().text.substr(2));
  std::size_t at = 1;
  for (; at < lines.size() && !trimmed(lines[at].text).empty(); ++at)
    read_header(lines[at], lesson);
  const std::vector<Line> rest(lines.begin() + static_cast<std::ptrdiff_t>(at), lines.end());
  for (const Line& line : rest) {
    if (is_fence(line)) throw TextError{line.number, "a block must belong to a page (## Title)"};
  }
  const RichText summary = read_text(rest);
  if (summary.empty()) {
    throw TextError{
        lines.back().number,
        "one paragraph that says what the lesson shows is missing before the first page"};
  }
  if (summary.size() > 1) {
    throw TextError{lines.back().number, "only one paragraph is allowed before the first page"};
  }
  for (const Run& run : summary.front().runs) {
    if (run.slot)
      throw TextError{run.slot->line,
                      "the paragraph that says what a lesson shows cannot have numbers {{...}}"};
  }
  lesson.summary = plain_text(summary);
}

/// The three names nearest to a wrong one, nearest first.
std::string nearest_names(std::string_view wrong, std::vector<std::string> names) {
  // The number in front need not be known.
  const auto distance = [&](const std::string& name) {
    return std::min(edit_distance(wrong, name),
                    edit_distance(wrong, name.substr(std::min<std::size_t>(3, name.size()))));
  };
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  names.resize(std::min<std::size_t>(names.size(), 3));
  return fmt::format("{}", fmt::join(names, ", "));
}

void require_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw FileError(path.string(), "no such lesson file; check the path");
  if (fs::file_size(path, error) > kMostBytes)
    throw FileError(path.string(), "is too large for a lesson (more than 1 MB)");
}

}  // namespace

std::string at_line(const fs::path& path, int line, const std::string& problem) {
  return fmt::format("{}:{}: {}", path.string(), line, problem);
}

std::vector<std::string> Lesson::errors() const {
  std::vector<std::string> all;
  if (!error.empty()) all.push_back(error);
  for (const Page& page : pages) {
    if (!page.error.empty()) all.push_back(page.error);
  }
  return all;
}

Lesson parse_lesson(const fs::path& path, std::string_view text) {
  Lesson lesson;
  lesson.path = path;
  lesson.name = path.stem().string();
  lesson.title = lesson.name;
  const std::vector<Line> lines = lines_of(text);
  for (const Line& line : lines) {
    const bool nul = line.text.find('\0') != std::string::npos;
    if (!nul && escape_invalid_utf8(line.text) == line.text) continue;
    lesson.error = at_line(
        path, line.number,
        nul ? "contains a NUL byte; a lesson is a text file" : "contains bytes that are not UTF-8");
    return lesson;
  }
  const auto is_title = [](const Line& line) { return is_page_title(line); };
  auto page = std::find_if(lines.begin(), lines.end(), is_title);
  try {
    read_head({lines.begin(), page}, lesson);
    if (page == lines.end()) {
      throw TextError{lines.back().number, "the lesson has no page; start one with ## Title"};
    }
  } catch (const TextError& error) {
    lesson.error = at_line(path, error.line, error.problem);
  }
  const PageReader reader(path);
  while (page != lines.end()) {
    const auto next = std::find_if(page + 1, lines.end(), is_title);
    if (lesson.pages.size() == kMostPages) {
      if (lesson.error.empty()) {
        lesson.error = at_line(path, page->number, fmt::format("more than {} pages", kMostPages));
      }
      break;
    }
    lesson.pages.push_back(reader.read({page, next}));
    page = next;
  }
  return lesson;
}

Lesson read_lesson(const fs::path& path) {
  try {
    require_file(path);
    return parse_lesson(path, read_file(path, kMostBytes));
  } catch (const FileError& error) {
    Lesson unread;
    unread.path = path;
    unread.name = unread.title = path.stem().string();
    unread.error = error.what();
    return unread;
  }
}

std::vector<Lesson> find_lessons(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 6 && name.ends_with(".md") &&
        std::isdigit(static_cast<unsigned char>(name[0])) != 0)
      paths.push_back(entry.path());
  }
  if (error) throw FileError(folder.string(), "cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<Lesson> lessons;
  for (const fs::path& path : paths) lessons.push_back(read_lesson(path));
  return lessons;
}

std::vector<Lesson> find_lessons() { return find_lessons(job::find_asset("lessons")); }

Lesson find_lesson(std::string_view name) {
  if (name.find('/') != std::string_view::npos || name.ends_with(".md")) {
    require_file(name);
    return read_lesson(name);
  }
  std::vector<std::string> names;
  for (Lesson& lesson : find_lessons()) {
    if (lesson.name == name) return std::move(lesson);
    names.push_back(lesson.name);
  }
  // Without its number a name is known too.
  for (const std::string& full : names) {
    if (full.size() > 3 && full.substr(3) == name) return find_lesson(full);
  }
  if (names.empty())
    throw UsageError(fmt::format("lesson {}: no lessons are installed", shown_word(name)));
  throw UsageError(fmt::format("lesson {}: does not exist; the nearest are {}", shown_word(name),
                               nearest_names(name, names)));
}

}  // namespace kvloupe::lesson
