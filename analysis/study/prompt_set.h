#pragma once
// Sets of prompts: folders of text files, and JSON lines as published benchmarks lay them out.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/study/answer_rules.h"

namespace kvloupe {

/// The place of one prompt of a set.
struct PromptPlace {
  std::string name;  // "notes.txt", "niah.jsonl#12", "many.jsonl#12.q0": from the study file's
  std::filesystem::path path;  // of the file
  int line = -1;               // of a JSON-lines file, from 0; −1: the file is one text
  std::int64_t at = 0;         // bytes of the file before the line, if known; else 0
  int question = -1;           // of a line with several, from 0; −1: the line is one prompt
  bool operator==(const PromptPlace&) const = default;
};

/// The text of a prompt in JSON lines.
struct PromptParts {
  std::vector<std::pair<std::string, std::string>> segments;  // name ("context", …) and text
  std::vector<std::string> answers;                           // any of them is right; may be none
  std::vector<AnswerRule> rules;                              // for the answer; may be none
  std::vector<std::string> unread;                            // names of fields without a use here
  std::string doubt;  // why its score may say less than it seems to, with the line
  std::size_t prefix = 0;  // bytes of the answer's beginning (answer_prefix), at the text's end
  int questions = 0;  // of the line, about one context; 0: the line is one prompt
};

/// The prompts of a folder (files *.txt and *.md, by name, without folders below and hidden files,
/// which archives of macOS leave beside each file), of a file *.jsonl (a prompt per line that is
/// not blank, or for each question of the line), or of any other file: itself. `name` is the file's
/// name in the names of its prompts. Of the content of JSON lines reads only lines with several
/// questions. Throws FileError: missing, unreadable, without a prompt, a line with questions as
/// read_prompt_line() refuses one.
std::vector<PromptPlace> find_prompts(const std::filesystem::path& path, const std::string& name);

/// Reads one line of a JSON-lines file. The layouts, by their fields:
/// - LongBench, and kvpress's RULER: `context`, and `input` or `question`. The prompt is the
///   context, a blank line, the question, and a line end and the `answer_prefix` if there is one.
///   The benchmark's own templates around these are not added.
/// - RULER: `input` without `context`, and `outputs` (a list); `answer_prefix` is appended. The
///   last line of the input is the question.
/// - `text` or `prompt`: the context, and the question if there is one.
/// - `context` and `questions` (SCBench: `multi_turns`), a list of objects with `question` or
///   `input`, `answers` or `answer`, and perhaps `answer_prefix` and `needle`: the place's question
///   makes the prompt that a line of the first layout with these fields would.
/// With `needle`, a text or a list, the passages of the context that hold the answer are segments
/// "needle". Answers are `answers` or `answer`, for RULER `outputs`: a list, or one text. All other
/// fields are named in `unread`, except those that only label a line (id, index, length, task …).
/// `rules` is a list of objects, each with the name of its kind as `rule`, and `text` and `count`
/// where the kind has them. Throws FileError naming the line: not a JSON object, none of these
/// layouts, a field of another kind, no text, a question without a context, a rule that cannot be
/// checked.
PromptParts read_prompt_line(const PromptPlace& place);
/// The same of a line that is known; the place names it in failures.
PromptParts parse_prompt_line(const PromptPlace& place, const std::string& text);

/// The name of a prompt without its question: prompts with the same one share a context.
std::string context_of(const std::string& prompt);
/// The number of each prompt's context, from 0 in the order of their first prompts.
std::vector<int> contexts_of(const std::vector<std::string>& prompts);

/// Changes when the content of a prompt's file does: its SHA-256. Empty if the file cannot be read.
std::string prompt_identity(const PromptPlace& place);
/// prompt_identity() that reads a file once, and again only where the file system says that it has
/// changed: many prompts are lines of one file.
class PromptIdentities {
 public:
  const std::string& of(const PromptPlace& place);

 private:
  struct Known {
    std::string state, identity;
  };
  std::map<std::filesystem::path, Known> known_;
};
/// The identity in results of earlier versions: size and time of the last change.
std::string earlier_prompt_identity(const PromptPlace& place);

}  // namespace kvloupe
