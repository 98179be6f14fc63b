#include "analysis/math/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>

#include "analysis/base/system/read_file.h"

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

/// The same for a field that may be missing or null.
double positive_or(const json& object, const char* field, double otherwise) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? otherwise : positive(object, field);
}

/// A text from a file, made fit for one line of an error.
std::string quoted(const std::string& text) {
  return json(text.substr(0, 40)).dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The type that the object names, or empty. If both spellings are present, the newer one counts.
std::string type_of(const json& object) {
  for (const char* field : {"rope_type", "type"}) {
    const auto found = object.find(field);
    if (found == object.end() || found->is_null()) continue;
    if (!found->is_string()) throw std::invalid_argument(std::string(field) + " must be a text");
    return found->get<std::string>();
  }
  return "";
}

/// YaRN, section 3.4: logits are this much, squared, larger for a context `factor` times as long.
double stretch_for(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

RopeScaling parse_yarn(const json& object, double most_positions) {
  RopeScaling scaling;
  scaling.type = RopeScaling::Type::yarn;
  scaling.original_context =
      positive_or(object, "original_max_position_embeddings", most_positions);
  if (scaling.original_context <= 0.0) {
    throw std::invalid_argument("original_max_position_embeddings must be a number greater than 0");
  }
  scaling.factor = most_positions > 0.0
                       ? positive_or(object, "factor", most_positions / scaling.original_context)
                       : positive(object, "factor");
  scaling.beta_fast = positive_or(object, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = positive_or(object, "beta_slow", scaling.beta_slow);
  if (scaling.beta_fast < scaling.beta_slow) {
    throw std::invalid_argument("beta_fast must be at least beta_slow");
  }
  const double own = positive_or(object, "mscale", 0.0);
  const double all = positive_or(object, "mscale_all_dim", 0.0);
  const double usual = own > 0.0 && all > 0.0
                           ? stretch_for(scaling.factor, own) / stretch_for(scaling.factor, all)
                           : stretch_for(scaling.factor, 1.0);
  scaling.attention_factor = positive_or(object, "attention_factor", usual);
  const auto truncate = object.find("truncate");
  if (truncate != object.end() && !truncate->is_null()) {
    if (!truncate->is_boolean()) throw std::invalid_argument("truncate must be true or false");
    scaling.truncate = truncate->get<bool>();
  }
  return scaling;
}

constexpr std::size_t kMostFactors = std::size_t{1} << 19;

std::vector<double> read_factors(const json& object) {
  const auto found = object.find("factors");
  if (found == object.end() || !found->is_array() || found->empty() ||
      found->size() > kMostFactors) {
    throw std::invalid_argument("factors must be a list of numbers, one for each pair");
  }
  std::vector<double> factors;
  for (const json& factor : *found) {
    if (!factor.is_number() || !std::isfinite(factor.get<double>()) ||
        factor.get<double>() <= 0.0) {
      throw std::invalid_argument("factors must be numbers greater than 0");
    }
    factors.push_back(factor.get<double>());
  }
  return factors;
}

/// The share of the pairs' own frequency that YaRN leaves, [d/2] from 1 to 0.
std::vector<double> yarn_shares(double theta, int head_dim, const RopeScaling& scaling) {
  if (!(theta > 1.0)) throw std::invalid_argument("yarn needs a rope_theta greater than 1");
  // The pair, as a real number, that makes so many turns within the original context.
  const auto pair_of = [&](double turns) {
    return head_dim * std::log(scaling.original_context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(theta));
  };
  double first = pair_of(scaling.beta_fast), last = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, head_dim - 1.0);
  if (last == first) last += 0.001;
  std::vector<double> shares;
  for (int j = 0; j < head_dim / 2; ++j) {
    shares.push_back(1.0 - std::clamp((j - first) / (last - first), 0.0, 1.0));
  }
  return shares;
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text, double most_positions) {
  if (is_deep_json(text)) throw std::invalid_argument("is nested too deeply");
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  RopeScaling scaling;
  if (object.is_null()) return scaling;
  if (!object.is_object()) throw std::invalid_argument("must be an object or null");
  // Models whose layers turn differently have one object for each kind of layer.
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      throw std::invalid_argument("a separate rotation for some layers, " + quoted(name) +
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
  } else if (type == "yarn") {
    scaling = parse_yarn(object, most_positions);
  } else if (type == "factors") {
    scaling.type = RopeScaling::Type::factors;
    scaling.factors = read_factors(object);
  } else {
    throw std::invalid_argument(
        "the type " + quoted(type) +
        " is not supported; the supported types are default, linear, llama3, yarn and factors");
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
    case RopeScaling::Type::yarn:
      return json{{"rope_type", "yarn"},
                  {"factor", scaling.factor},
                  {"beta_fast", scaling.beta_fast},
                  {"beta_slow", scaling.beta_slow},
                  {"attention_factor", scaling.attention_factor},
                  {"truncate", scaling.truncate},
                  {"original_max_position_embeddings", scaling.original_context}}
          .dump();
    case RopeScaling::Type::factors:
      return json{{"rope_type", "factors"}, {"factors", scaling.factors}}.dump();
  }
  return "null";
}

std::vector<double> rope_frequencies(double theta, int head_dim, const RopeScaling& scaling) {
  const bool yarn = scaling.type == RopeScaling::Type::yarn;
  const std::vector<double> shares =
      yarn ? yarn_shares(theta, head_dim, scaling) : std::vector<double>();
  const bool factors = scaling.type == RopeScaling::Type::factors;
  if (factors && std::ssize(scaling.factors) != head_dim / 2) {
    throw std::invalid_argument("the rotation has " + std::to_string(scaling.factors.size()) +
                                " factors for " + std::to_string(head_dim / 2) + " pairs");
  }
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
    } else if (yarn) {
      const double kept = shares[static_cast<std::size_t>(j)];
      frequency *= kept + (1.0 - kept) / scaling.factor;
    } else if (factors) {
      frequency /= scaling.factors[static_cast<std::size_t>(j)];
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

double rope_stretch(const RopeScaling& scaling) {
  return scaling.type == RopeScaling::Type::yarn ? scaling.attention_factor : 1.0;
}

}  // namespace kvloupe
