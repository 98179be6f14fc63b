#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvloupe {

/// The digits of the first number in a text; empty without one. What the answer to a needle's
/// question is judged by.
std::string first_number(const std::string& text);

/// With all letters small, as Python's str.lower() makes them; every small sigma is σ. Bytes that
/// are not UTF-8 stay.
std::string in_small_letters(std::string_view text);

/// Whether a text has one of the answers in it, in capital or small letters: RULER's
/// string_match_part (Hsieh et al. 2024) for one prediction. An empty answer counts for nothing.
bool has_answer(std::string_view text, std::span<const std::string> answers);

/// The share of the answers that a text has in it, in capital or small letters: RULER's
/// string_match_all for one prediction, where each answer is asked for. Empty answers are left out;
/// 0 where no other is there.
double found_share(std::string_view text, std::span<const std::string> answers);

/// The largest F1 of a text's words and those of an answer, between 0 and 1: LongBench's
/// qa_f1_score (Bai et al. 2024, after SQuAD). Words: in small letters, without ASCII
/// punctuation and without a, an, the, split at white space. A word that is there n times in one
/// and m times in the other counts min(n, m) times.
double answer_f1(std::string_view text, std::span<const std::string> answers);

}  // namespace kvloupe
