#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::test {

/// Gives /model, or another group, of a trace that is there this text attribute, in place of one of
/// that name.
void write_model_attribute(const std::filesystem::path& trace, const std::string& name,
                           const std::string& text, const char* group = "/model");

/// Makes the layers of a finished trace of one layer so many: the others are the same data under
/// other names, so that the file is as large as before.
void repeat_layer(const std::filesystem::path& trace, int layers);

/// Gives the tokens of a finished trace these texts, over and over.
void write_token_texts(const std::filesystem::path& trace, const std::vector<std::string>& texts);

/// Lets the ids of a finished trace repeat from token `first` to the end, `length` tokens at a
/// time.
void make_loop(const std::filesystem::path& trace, int first, int length);

/// Makes tokens `first` to `last` of a finished trace with segments a segment of this name.
void mark_segment(const std::filesystem::path& trace, const std::string& name, int first, int last);

/// Lets a finished trace say that so many tokens after the prompt were given, and which ids the
/// model wrote itself. Nothing: as a trace of an older version, which does not say.
void write_given(const std::filesystem::path& trace, std::optional<int> given,
                 const std::vector<std::int32_t>& own_answer = {});

}  // namespace kvloupe::test
