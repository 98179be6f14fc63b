#pragma once
// A lesson: a file that a teacher writes (docs/lessons.md), read and checked.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/lesson/expression.h"
#include "app/lesson/text.h"

namespace kvloupe::lesson {

/// A task for the reader, and the condition under which it is done.
struct Task {
  RichText text;
  Expression when;
  int line = 0;  // of its fence
};

struct Page {
  std::string title;
  RichText text;
  /// The view's fields as in the file, with numbers {{...}} not yet filled in; empty: the page
  /// keeps the view of the previous page.
  std::string view_json;
  int view_line = 0;         // of the first line of view_json
  bool step_slider = false;  // the page is about steps
  std::optional<Task> task;
  /// "FILE:LINE: what is wrong"; empty: no error. The parts that could be read are there in any
  /// case.
  std::string error;
  int line = 0;  // of its title
};

/// A run of the model with a policy in its cache, in addition to the run with the full cache.
struct ClosedRun {
  std::string policy;
  std::string budget;
  bool own_words = false;  // it writes its own tokens, not those of the run with the full cache
};

/// The trace that a lesson is written for, made with the demo model.
struct LessonRun {
  std::string prompt = "needle";  // in assets/prompts, without .txt
  int generate = 16;
  int block = 64;
  std::vector<ClosedRun> closed;
};

/// A requirement of a lesson for another trace.
struct TraceNeed {
  std::string kind;          // segment, tokens, generated, closed, predictions, output_weight
  std::string segment = {};  // of kind segment
  int tokens = 0;            // at least so many
};

struct Lesson {
  std::string name;  // of its file, without .md
  std::string title;
  std::string summary;
  std::filesystem::path path;
  LessonRun run;
  std::vector<TraceNeed> needs;
  std::vector<Page> pages;
  /// "FILE:LINE: what is wrong" with its head, or "FILE: ..." if it cannot be read at all; empty:
  /// no error. Pages that could be read are there in any case.
  std::string error;

  /// Every error, the head's first.
  std::vector<std::string> errors() const;
};

/// Never throws for errors in the file; these are in the errors of the lesson and its pages.
Lesson read_lesson(const std::filesystem::path& path);
/// The same from text; `path` is used in messages.
Lesson parse_lesson(const std::filesystem::path& path, std::string_view text);

/// The lessons of a folder (NN-name.md), by name.
std::vector<Lesson> find_lessons(const std::filesystem::path& folder);
/// The lessons that come with the program. Throws FileError if their folder is missing.
std::vector<Lesson> find_lessons();

/// "FILE:LINE: what is wrong".
std::string at_line(const std::filesystem::path& path, int line, const std::string& problem);

/// By NAME, or by a path, which has a '/' or ends in .md. Throws UsageError naming the nearest
/// names, FileError for a path that does not exist.
Lesson find_lesson(std::string_view name);

}  // namespace kvloupe::lesson
