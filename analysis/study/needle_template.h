#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// The parts of needle prompts.
struct NeedleTemplate {
  std::string needle;               // with {word} and {number}
  std::string question;             // with {word}; the answer is the number that follows
  std::vector<std::string> words;   // what numbers are for
  long lowest = 0, highest = 0;     // numbers, both included
  std::vector<std::string> filler;  // sentences, each with the white space before it
  int answer_tokens = 1;            // largest number of tokens of the answer
  bool operator==(const NeedleTemplate&) const = default;
};

/// For models that know English; the filler repeats a few sentences.
NeedleTemplate general_needle_template();

/// Reads {"needle", "question", "words": [...], "numbers": [lowest, highest], "answer_tokens",
/// "filler": file, beside the template}. Throws FileError naming the field.
NeedleTemplate read_needle_template(const std::filesystem::path& path);

/// The template for an evaluation of a model: `path`, else needle.json in the model's folder, else
/// the general template; with the sentences of `filler` where that is given. Throws FileError.
NeedleTemplate needle_template_of(const std::filesystem::path& model,
                                  const std::optional<std::filesystem::path>& path,
                                  const std::optional<std::filesystem::path>& filler);

/// The sentences of a prompt file's context, without the parts marked as needle or question. Throws
/// FileError if there are none.
std::vector<std::string> read_filler(const std::filesystem::path& path);

/// Cuts a text after each '.', '!' or '?' that is followed by white space or the end. Joined, the
/// sentences give the text again.
std::vector<std::string> sentences_of(std::string_view text);

}  // namespace kvloupe
