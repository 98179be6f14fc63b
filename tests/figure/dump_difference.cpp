#include "tests/figure/dump_difference.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace kvloupe::test {

namespace {

/// A piece of a line: a number, a colour, or anything else.
struct Piece {
  enum class Kind { other, number, colour } kind = Kind::other;
  std::string text;
  bool limit = false;  // of an axis
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::vector<Piece> pieces_of(const std::string& line) {
  std::vector<Piece> pieces;
  const auto other = [&](char c) {
    if (pieces.empty() || pieces.back().kind != Piece::Kind::other) pieces.push_back({});
    pieces.back().text += c;
  };
  // A text may hold quotes itself: what is between the first and the last is taken as it is.
  const std::size_t quoted = line.find('"');
  const std::size_t end_of_quotes = line.rfind('"');
  for (std::size_t i = 0; i < line.size();) {
    if (quoted != std::string::npos && i >= quoted && i <= end_of_quotes &&
        !line.starts_with("axes")) {
      other(line[i++]);
    } else if (line[i] == '#') {
      std::size_t end = i + 1;
      while (end < line.size() && std::isxdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
      pieces.push_back({Piece::Kind::colour, line.substr(i, end - i), false});
      i = end;
    } else if (is_digit(line[i]) ||
               (line[i] == '-' && i + 1 < line.size() && is_digit(line[i + 1]))) {
      std::size_t end = i + 1;
      while (end < line.size() &&
             (is_digit(line[end]) ||
              (line[end] == '.' && end + 1 < line.size() && is_digit(line[end + 1])) ||
              (line[end] == 'e' && end + 1 < line.size() && line[end + 1] != ' ') ||
              ((line[end] == '-' || line[end] == '+') && line[end - 1] == 'e'))) {
        ++end;
      }
      const bool limit = line.compare(end, 2, "..") == 0 || (i >= 2 && line[i - 1] == '.');
      pieces.push_back({Piece::Kind::number, line.substr(i, end - i), limit});
      i = end;
    } else {
      other(line[i++]);
    }
  }
  return pieces;
}

bool near(const Piece& a, const Piece& b, bool mean_colours) {
  if (a.text == b.text) return true;
  if (a.kind != b.kind || a.kind == Piece::Kind::other) return false;
  if (a.kind == Piece::Kind::number) {
    const double x = std::strtod(a.text.c_str(), nullptr);
    const double y = std::strtod(b.text.c_str(), nullptr);
    const double room = a.limit ? 2e-3 * std::max(std::abs(x), std::abs(y)) : 0.15;
    return std::abs(x - y) <= room;
  }
  if (!mean_colours || a.text.size() != b.text.size()) return false;
  for (std::size_t i = 1; i + 1 < a.text.size(); i += 2) {
    const auto part = [&](const std::string& text) {
      return std::strtol(text.substr(i, 2).c_str(), nullptr, 16);
    };
    if (std::abs(part(a.text) - part(b.text)) > 6) return false;
  }
  return true;
}

bool near(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::vector<Piece> first = pieces_of(a);
  const std::vector<Piece> second = pieces_of(b);
  if (first.size() != second.size()) return false;
  const std::size_t start = a.find_first_not_of(' ');
  const bool mean_colours = start != std::string::npos && a.compare(start, 5, "cells") == 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!near(first[i], second[i], mean_colours)) return false;
  }
  return true;
}

}  // namespace

std::string dump_difference(const std::string& wanted, const std::string& found) {
  std::istringstream a(wanted);
  std::istringstream b(found);
  std::string one, other;
  for (int line = 1;; ++line) {
    const bool more = static_cast<bool>(std::getline(a, one));
    const bool more_found = static_cast<bool>(std::getline(b, other));
    if (!more && !more_found) return {};
    if (!more) one = "(the end)";
    if (!more_found) other = "(the end)";
    if (more != more_found || !near(one, other)) {
      return "line " + std::to_string(line) + ":\n  wanted " + one + "\n  found  " + other;
    }
  }
}

}  // namespace kvloupe::test
