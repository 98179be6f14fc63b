#include "analysis/metric/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>

namespace kvloupe {

namespace {

using nlohmann::json;

double positive(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number() || !std::isfinite(found->get<double>()) ||
      found->get<double>() <= 0.0) {
    throw std::invalid_argument(std::string(field) + " must be a number greater than 0");
  }
  return found->get<double>();
}

/// A text from a file, made fit for one line of an error.
std::string quoted(const std::string& text) {
  return json(text.substr(0, 40)).dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The type it names, empty where it names none. Where both spellings stand, the newer one counts.
std::string type_of(const json& object) {
  for (const char* field : {"rope_type", "type"}) {
    const auto found = object.find(field);
    if (found == object.end() || found->is_null()) continue;
    if (!found->is_string()) throw std::invalid_argument(std::string(field) + " must be a text");
    return found->get<std::string>();
  }
  return "";
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  RopeScaling scaling;
  if (object.is_null()) return scaling;
  if (!object.is_object()) throw std::invalid_argument("must be an object or null");
  // Models whose layers turn differently have one object for each kind of layer.
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      throw std::invalid_argument("a rotation of its own for some layers, " + quoted(name) +
                                  ", is not supported");
    }
  }
  const std::string type = type_of(object);
  if (type == "default") return scaling;
  if (type.empty()) {
    if (object.contains("factor")) throw std::invalid_argument("the field rope_type is missing");
    return scaling;
  }
  if (type == "linear") {
    scaling.type = RopeScaling::Type::linear;
    scaling.factor = positive(object, "factor");
  } else if (type == "llama3") {
    scaling.type = RopeScaling::Type::llama3;
    scaling.factor = positive(object, "factor");
    scaling.low_freq_factor = positive(object, "low_freq_factor");
    scaling.high_freq_factor = positive(object, "high_freq_factor");
    scaling.original_context = positive(object, "original_max_position_embeddings");
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      throw std::invalid_argument("high_freq_factor must be greater than low_freq_factor");
    }
  } else {
    throw std::invalid_argument("the type " + quoted(type) +
                                " is not supported; default, linear and llama3 are");
  }
  return scaling;
}

std::string rope_scaling_json(const RopeScaling& scaling) {
  switch (scaling.type) {
    case RopeScaling::Type::none:
      break;
    case RopeScaling::Type::linear:
      return json{{"rope_type", "linear"}, {"factor", scaling.factor}}.dump();
    case RopeScaling::Type::llama3:
      return json{{"rope_type", "llama3"},
                  {"factor", scaling.factor},
                  {"low_freq_factor", scaling.low_freq_factor},
                  {"high_freq_factor", scaling.high_freq_factor},
                  {"original_max_position_embeddings", scaling.original_context}}
          .dump();
  }
  return "null";
}

std::vector<double> rope_frequencies(double theta, int head_dim, const RopeScaling& scaling) {
  std::vector<double> frequencies;
  for (int j = 0; j < head_dim / 2; ++j) {
    double frequency = std::pow(theta, -2.0 * j / head_dim);
    if (scaling.type == RopeScaling::Type::linear) {
      frequency /= scaling.factor;
    } else if (scaling.type == RopeScaling::Type::llama3) {
      const double turns = scaling.original_context * frequency / (2.0 * std::numbers::pi);
      const double kept = std::clamp(
          (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor),
          0.0, 1.0);
      frequency *= kept + (1.0 - kept) / scaling.factor;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace kvloupe
