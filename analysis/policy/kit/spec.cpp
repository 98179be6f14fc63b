#include "analysis/policy/kit/spec.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "analysis/base/text/text.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

std::string number_text(double value) {
  const double size = std::abs(value);
  const bool plain = size == 0.0 || (size >= 1e-5 && size < 1e15);
  std::array<char, 400> buffer;
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {buffer.data(), result.ptr};
}

long Percent::of(long whole) const {
  // The shortest decimal of `value` is the number that the person wrote; multiplied as integers.
  std::array<char, 400> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed)
          .ptr;
  __extension__ using Wide = __int128;
  Wide digits = 0;
  Wide denominator = 100;
  bool fraction = false;
  for (const char* c = buffer.data(); c != end; ++c) {
    if (*c == '-') return 0;
    if (*c == '.') {
      fraction = true;
      continue;
    }
    if (fraction && denominator >= Wide{1000000000000000000}) break;  // below 1e-16 of the whole
    digits = digits * 10 + (*c - '0');
    if (fraction) denominator *= 10;
    if (digits > Wide{1000000000000000000} * 1000) {
      throw std::out_of_range("a percentage is too long: " + std::string(buffer.data(), end));
    }
  }
  const Wide share = digits * whole / denominator;
  constexpr long kMost = std::numeric_limits<long>::max();
  return share > kMost ? kMost : static_cast<long>(share);
}

const SpecValue& SpecPart::argument(std::string_view parameter) const {
  for (const auto& [key, value] : arguments) {
    if (key == parameter) return value;
  }
  throw std::logic_error(name + " has no parameter " + std::string(parameter));
}

double SpecPart::number(std::string_view parameter) const {
  const double* value = std::get_if<double>(&argument(parameter));
  if (value == nullptr) throw std::logic_error(std::string(parameter) + " is not a number");
  return *value;
}

int SpecPart::count(std::string_view parameter) const {
  return static_cast<int>(number(parameter));
}

const std::string& SpecPart::word(std::string_view parameter) const {
  const std::string* value = std::get_if<std::string>(&argument(parameter));
  if (value == nullptr) throw std::logic_error(std::string(parameter) + " is not a word");
  return *value;
}

int SpecPart::share(std::string_view parameter, int whole) const {
  const SpecValue& value = argument(parameter);
  if (const Percent* percent = std::get_if<Percent>(&value)) {
    return static_cast<int>(percent->of(whole));
  }
  return count(parameter);
}

const SpecPart* PolicySpec::find(std::string_view name) const {
  for (const SpecPart& part : parts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

namespace {
std::string value_text(const SpecValue& value, ParameterType type) {
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  if (const Percent* percent = std::get_if<Percent>(&value)) {
    return number_text(percent->value) + "%";
  }
  const auto& text = std::get<std::string>(value);
  return type == ParameterType::text ? doubled_quotes(text) : text;
}
}  // namespace

std::string PolicySpec::text() const {
  std::string result;
  for (const SpecPart& part : parts) {
    const PolicyEntry* entry = find_policy(part.name);
    if (entry == nullptr) throw std::logic_error("no policy " + part.name);
    std::string inside;
    for (std::size_t i = 0; i < entry->parameters.size(); ++i) {
      const ParameterInfo& parameter = entry->parameters[i];
      const SpecValue& value = part.argument(parameter.name);
      if (!parameter.required && value == parameter.default_value) continue;
      if (!inside.empty()) inside += ',';
      if (i > 0) inside += parameter.name + '=';
      inside += value_text(value, parameter.type);
    }
    if (!result.empty()) result += '+';
    result += part.name;
    if (!inside.empty()) result += '(' + inside + ')';
  }
  return result;
}

}  // namespace kvloupe
