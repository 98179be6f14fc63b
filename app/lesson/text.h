#pragma once
// The text of a lesson: a small part of Markdown with numbers that are computed.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/document/document.h"
#include "app/lesson/expression.h"

namespace kvloupe::lesson {

/// How a value is written.
enum class Format {
  number,   // three significant digits, thin spaces in thousands
  percent,  // of a share: 41 %
  whole,    // `int`: rounded, thin spaces in thousands
  bytes,    // 4.1 MB
  text,     // a word, as it is
};

/// {{EXPRESSION | FORMAT}}
struct Slot {
  Expression expression;
  Format format = Format::number;
  int line = 0;  // of the file, from 1
};

/// When a piece of text is shown: where `when` is met, or where it is not.
struct Condition {
  Expression when;
  bool met = true;
};

/// A piece of text in one style; its link starts with http:// or https://.
struct Run : figure::document::Run {
  std::optional<Slot> slot;           // computes `text`; empty in finished text
  bool computed = false;              // in finished text: it was a slot
  std::vector<Condition> conditions;  // all must hold; empty in finished text
};

using BlockKind = figure::document::TextBlock::Kind;

/// One paragraph, or one item of a list.
struct Block {
  BlockKind kind = BlockKind::paragraph;
  int number = 0;  // of a numbered item
  std::vector<Run> runs;
};

/// A text; finished if no run has a slot any more.
using RichText = std::vector<Block>;

/// An error in a text, and its place.
struct TextError {
  int line = 0;
  std::string problem;
};

/// Lines of a text as in the file, with their numbers from 1.
struct Line {
  int number = 0;
  std::string text;
};

/// Without the spaces and tabs around it.
std::string_view trimmed(std::string_view text);

/// Reads paragraphs, "- " and "1. " lists (an item may continue in further lines), **bold**,
/// *emphasis*, `code`, [words](http://...), {{EXPRESSION | FORMAT}}, and {{if EXPRESSION}} ...
/// {{else}} ... {{end}} within a paragraph; a backslash makes the next character an ordinary one.
/// Throws TextError.
RichText read_text(const std::vector<Line>& lines);

/// "EXPRESSION | FORMAT". Throws TextError.
Slot read_slot(std::string_view text, int line);

/// Only the parts without a condition, each number as "–": for a text whose conditions and numbers
/// cannot be known.
RichText without_numbers(RichText text);

/// The text as documents have it; a slot reads "…".
figure::document::TextBlocks blocks_of(const RichText& text);

/// The words alone; a slot reads "…".
std::string plain_text(const RichText& text);

}  // namespace kvloupe::lesson
