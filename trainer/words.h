#pragma once
// The open word classes of the generated corpus. Chosen by hand for this project: short, common,
// concrete English words, none twice over all lists.

#include <span>
#include <string_view>

namespace kvloupe::train {

/// People, written with a capital.
std::span<const std::string_view> names();
/// Countable things, singular.
std::span<const std::string_view> things();
/// Places of a thing: each follows "in the".
std::span<const std::string_view> places();
std::span<const std::string_view> adjectives();
/// Verbs in the past tense that take a thing: "Ada painted the kettle".
std::span<const std::string_view> verbs();
/// Words of the closed classes and of the passages' fixed phrases, with and without a capital.
std::span<const std::string_view> function_words();

}  // namespace kvloupe::train
