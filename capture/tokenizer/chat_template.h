#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/base/system/prompt_file.h"

namespace kvloupe {

/// A model's chat template, which writes a prompt as a message of the user.
struct ChatTemplate {
  std::string source;            // Jinja
  nlohmann::ordered_json words;  // bos_token, … as the template names them
  std::string place;             // of the file, for failures
  std::string system;            // the message before the user's; empty: none
  std::string facts;             // what traces and results keep of it

  /// The messages' text up to where the answer begins, and after it the prompt's own beginning of
  /// the answer (answer_begin()). The prompt's segments stay with their texts; what the template
  /// writes is the segment "template". Throws FileError where the template needs what this program
  /// does not know, or does not write the message once.
  Prompt apply(const Prompt& prompt) const;

 private:
  std::string render(const std::string& message) const;
};

}  // namespace kvloupe
