#include "app/lesson/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "analysis/base/text/text.h"
#include "analysis/policy/kit/nearest_word.h"

namespace kvloupe::lesson {

namespace {

constexpr std::array<std::pair<std::string_view, Format>, 4> kFormats = {{
    {"percent", Format::percent},
    {"int", Format::whole},
    {"bytes", Format::bytes},
    {"text", Format::text},
}};

/// A bullet "- " or a number "1. " at the line's start: the length of it, and the number.
struct ItemMark {
  std::size_t length = 0;
  BlockKind kind = BlockKind::paragraph;
  int number = 0;
};
ItemMark item_mark(std::string_view line) {
  if (line.starts_with("- ")) return {2, BlockKind::bullet, 0};
  int number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  const auto digits = static_cast<std::size_t>(end - line.data());
  if (error == std::errc() && number >= 0 && digits <= 3 && line.substr(digits).starts_with(". "))
    return {digits + 2, BlockKind::numbered, number};
  return {};
}

/// Refuses Markdown that lessons do not have.
void refuse_foreign(const Line& line) {
  const std::string_view text = line.text;
  if (text.starts_with("#"))
    throw TextError{line.number, "a page has one title (##); smaller titles are not allowed"};
  if (text.starts_with(">"))
    throw TextError{line.number, "quotations (>) are not allowed; write a paragraph"};
  if (text.starts_with("|"))
    throw TextError{line.number, "tables (|) are not allowed; write a list"};
  if (text.starts_with("![")) throw TextError{line.number, "pictures are not allowed; show a view"};
}

/// One paragraph's text, its lines joined by spaces, and which line each character is from.
struct Paragraph {
  BlockKind kind = BlockKind::paragraph;
  int number = 0;
  std::string text;
  std::vector<std::pair<std::size_t, int>> lines;  // first character, line

  void add(std::string_view more, int line) {
    if (!text.empty()) text += ' ';
    lines.emplace_back(text.size(), line);
    text += more;
  }
  int line_at(std::size_t at) const {
    int line = lines.empty() ? 0 : lines.front().second;
    for (const auto& [first, number_] : lines) {
      if (first <= at) line = number_;
    }
    return line;
  }
};

/// Reads one paragraph's marks.
class Inline {
 public:
  explicit Inline(const Paragraph& paragraph) : in_(paragraph), text_(paragraph.text) {}

  std::vector<Run> read() {
    while (at_ < text_.size()) next();
    flush();
    if (bold_) fail(bold_at_, "** is not closed");
    if (italic_) fail(italic_at_, "* is not closed; write \\* for an asterisk");
    if (!conditions_.empty())
      fail(if_at_.back(), "{{if ...}} is not closed by {{end}} in the same paragraph");
    return std::move(runs_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& problem) const {
    throw TextError{in_.line_at(at), problem};
  }
  bool ahead(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void next() {
    const char c = text_[at_];
    if (c == '\\' && at_ + 1 < text_.size() &&
        std::string_view("\\*`[]{}-#>|.!").find(text_[at_ + 1]) != std::string_view::npos) {
      now_ += text_[at_ + 1];
      at_ += 2;
    } else if (ahead("{{")) {
      slot(false);
    } else if (c == '`') {
      code();
    } else if (ahead("**")) {
      mark(2, bold_, bold_at_);
    } else if (c == '*') {
      mark(1, italic_, italic_at_);
    } else if (c == '[') {
      link();
    } else {
      now_ += c;
      ++at_;
    }
  }

  /// Between two spaces an asterisk is a times sign.
  void mark(std::size_t length, bool& on, std::size_t& opened) {
    const bool space_before = at_ == 0 || text_[at_ - 1] == ' ';
    const bool space_after = at_ + length >= text_.size() || text_[at_ + length] == ' ';
    if (on ? space_before : space_after) {
      if (!on && !space_before)
        fail(at_, fmt::format("{} has no opening mark; write \\* for an asterisk",
                              length == 2 ? "**" : "*"));
      now_.append(length, '*');
    } else {
      flush();
      opened = at_;
      on = !on;
    }
    at_ += length;
  }

  void code() {
    const std::size_t start = at_++;
    flush();
    for (;;) {
      if (at_ >= text_.size()) fail(start, "` is not closed");
      if (text_[at_] == '`') break;
      if (ahead("{{")) {
        flush(true);
        slot(true);
      } else {
        now_ += text_[at_++];
      }
    }
    ++at_;
    flush(true);
  }

  void slot(bool code) {
    flush(code);
    const std::size_t start = at_;
    const std::size_t end = text_.find("}}", start);
    if (end == std::string_view::npos) fail(start, "{{ is not closed by }}");
    const std::string_view inside = text_.substr(start + 2, end - start - 2);
    at_ = end + 2;
    if (condition(trimmed(inside), start)) return;
    Run run = style();
    run.code = code;
    run.slot = read_slot(inside, in_.line_at(start));
    runs_.push_back(std::move(run));
  }

  /// Takes {{if EXPRESSION}}, {{else}} and {{end}}; false where the text is none of these.
  bool condition(std::string_view inside, std::size_t start) {
    if (inside == "if" || inside.starts_with("if ")) {
      const Slot slot = read_slot(trimmed(inside.substr(2)), in_.line_at(start));
      if (slot.format != (slot.expression.is_text() ? Format::text : Format::number))
        fail(start, "{{if ...}}: a condition has no format");
      conditions_.push_back({slot.expression, true});
      if_at_.push_back(start);
      return true;
    }
    if (inside != "else" && inside != "end") return false;
    if (conditions_.empty())
      fail(start, fmt::format("{{{{{}}}}} has no {{{{if ...}}}} before it", inside));
    if (inside == "end") {
      conditions_.pop_back();
      if_at_.pop_back();
      return true;
    }
    if (!conditions_.back().met) fail(start, "{{if ...}} has a second {{else}}");
    conditions_.back().met = false;
    return true;
  }

  void link() {
    const std::size_t start = at_;
    const std::size_t close = text_.find(']', start);
    if (close == std::string_view::npos || close + 1 >= text_.size() || text_[close + 1] != '(') {
      now_ += text_[at_++];  // a bracket
      return;
    }
    const std::size_t end = text_.find(')', close);
    if (end == std::string_view::npos) fail(start, "a link is not closed by )");
    flush();
    const std::string_view target = text_.substr(close + 2, end - close - 2);
    const bool web = target.starts_with("https://") || target.starts_with("http://");
    const bool clean = std::all_of(target.begin(), target.end(), [](unsigned char c) {
      return c > ' ' && c < 0x7F &&
             std::string_view("\"'<>\\`").find(static_cast<char>(c)) == std::string_view::npos;
    });
    if (!web || !clean)
      fail(start, fmt::format("the link {} must start with https:// or http:// and must not "
                              "contain spaces or quotes",
                              shown_word(target)));
    Run run = style();
    run.text = text_.substr(start + 1, close - start - 1);
    run.link = target;
    if (run.text.empty() || run.text.find("{{") != std::string::npos)
      fail(start, "the words of a link cannot have numbers");
    runs_.push_back(std::move(run));
    at_ = end + 1;
  }

  Run style() const {
    Run run;
    run.bold = bold_;
    run.italic = italic_;
    run.conditions = conditions_;
    return run;
  }

  void flush(bool code = false) {
    if (now_.empty()) return;
    Run run = style();
    run.code = code;
    run.text = std::move(now_);
    now_.clear();
    runs_.push_back(std::move(run));
  }

  const Paragraph& in_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::string now_;
  bool bold_ = false, italic_ = false;
  std::size_t bold_at_ = 0, italic_at_ = 0;
  std::vector<Condition> conditions_;
  std::vector<std::size_t> if_at_;  // where they begin
  std::vector<Run> runs_;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

Slot read_slot(std::string_view text, int line) {
  Slot slot;
  slot.line = line;
  const std::size_t bar = text.rfind('|');
  // || is an operator.
  const bool has_format = bar != std::string_view::npos && (bar == 0 || text[bar - 1] != '|');
  const std::string_view expression = trimmed(has_format ? text.substr(0, bar) : text);
  if (has_format) {
    const std::string_view word = trimmed(text.substr(bar + 1));
    const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                    [&](const auto& one) { return one.first == word; });
    if (found == kFormats.end()) {
      std::vector<std::string> names;
      for (const auto& one : kFormats) names.emplace_back(one.first);
      throw TextError{line, fmt::format("{} is not a format; the nearest is '{}'", shown_word(word),
                                        nearest_word(word, names))};
    }
    slot.format = found->second;
  }
  const auto where = [&] { return fmt::format("{{{{{}}}}}", in_one_line(trimmed(text), 60)); };
  try {
    slot.expression = Expression(expression);
  } catch (const ExpressionError& error) {
    throw TextError{line, fmt::format("{}, column {}: {}", where(), error.column, error.what())};
  }
  if (slot.expression.is_text() && slot.format == Format::number) slot.format = Format::text;
  if (slot.expression.is_text() != (slot.format == Format::text)) {
    throw TextError{
        line, where() + (slot.format == Format::text ? ": is a number; leave out the format text"
                                                     : ": is a text; use the format text")};
  }
  return slot;
}

RichText read_text(const std::vector<Line>& lines) {
  std::vector<Paragraph> paragraphs;
  bool open = false;  // the next line goes on with the last paragraph
  for (const Line& line : lines) {
    const std::string_view text = trimmed(line.text);
    if (text.empty()) {
      open = false;
      continue;
    }
    const std::string_view unindented = line.text;
    const ItemMark mark = item_mark(unindented);
    if (mark.length > 0) {
      Paragraph item;
      item.kind = mark.kind;
      item.number = mark.number;
      item.add(trimmed(unindented.substr(mark.length)), line.number);
      paragraphs.push_back(std::move(item));
      open = true;
      continue;
    }
    refuse_foreign(line);
    if (!open) paragraphs.emplace_back();
    paragraphs.back().add(text, line.number);
    open = true;
  }
  RichText result;
  for (const Paragraph& paragraph : paragraphs)
    result.push_back({paragraph.kind, paragraph.number, Inline(paragraph).read()});
  return result;
}

RichText without_numbers(RichText text) {
  for (Block& block : text) {
    std::erase_if(block.runs, [](const Run& run) { return !run.conditions.empty(); });
    for (Run& run : block.runs) {
      if (run.slot) run.text = "–";
      run.slot.reset();
    }
  }
  std::erase_if(text, [](const Block& block) { return block.runs.empty(); });
  return text;
}

figure::document::TextBlocks blocks_of(const RichText& text) {
  figure::document::TextBlocks blocks;
  for (const Block& block : text) {
    blocks.push_back({block.kind, {block.runs.begin(), block.runs.end()}, block.number});
    for (std::size_t i = 0; i < block.runs.size(); ++i) {
      figure::document::Run& run = blocks.back().runs[i];
      run.pending = block.runs[i].slot.has_value();
      if (run.pending) run.text = "…";
    }
  }
  return blocks;
}

std::string plain_text(const RichText& text) {
  std::string plain;
  for (const Block& block : text) {
    if (!plain.empty()) plain += "\n";
    for (const Run& run : block.runs) plain += run.slot ? "…" : run.text;
  }
  return plain;
}

}  // namespace kvloupe::lesson
