#include "analysis/evaluation/rescue_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/evaluation/results_json.h"

namespace kvloupe {

namespace {
using results::Json;
using results::Wrong;

constexpr double kAnyLogprob = std::numeric_limits<double>::max();
constexpr std::size_t kMost = 1'000'000;  // tokens, or heads; more than any model has

bool truth(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_boolean())
    throw Wrong(fmt::format("has no true or false \"{}\"", name));
  return found->get<bool>();
}

int index(const Json& json, const char* name, double most) {
  const double value = results::number_in(json, name, 0.0, most);
  if (value != static_cast<double>(static_cast<int>(value)))
    throw Wrong(fmt::format("has a \"{}\" that is not a whole number", name));
  return static_cast<int>(value);
}
int index(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw Wrong(fmt::format("has no \"{}\"", name));
  return index(*found, name, double{kMost});
}

RescueEffect effect(const Json& json, HeadIndex at) {
  if (!json.is_object()) throw Wrong("has an effect that is not an object");
  return {at, truth(json, "right"), results::number(json, "logprob", -kAnyLogprob, kAnyLogprob),
          results::number(json, "gain", -kAnyLogprob, kAnyLogprob)};
}

/// Layers and heads per layer.
struct Shape {
  int layers = 0;
  int heads = 0;
};

/// Files of earlier versions do not say: they have every layer and head.
Shape shape_of(const Json& json) {
  Shape shape;
  if (json.find("shape") != json.end()) {
    const Json& said = results::object_in(json, "shape");
    shape = {index(said, "layers"), index(said, "heads")};
  } else {
    const Json& keep = results::object_in(json, "keep");
    const std::size_t layers = results::array_in(keep, "layers").size();
    const std::size_t heads = results::array_in(keep, "heads").size();
    if (layers == 0 || heads > kMost || heads == 0 || heads % layers != 0)
      throw Wrong("does not have the effects of every layer and head");
    shape = {static_cast<int>(layers), static_cast<int>(heads / layers)};
  }
  if (shape.layers < 1 || shape.heads < 1 ||
      static_cast<std::size_t>(shape.layers) > kMost / static_cast<std::size_t>(shape.heads))
    throw Wrong("has a \"shape\" without layers or heads, or with too many");
  return shape;
}

RescueSide side(const Json& json, Shape shape, bool all_known) {
  RescueSide side;
  side.all = effect(results::object_in(json, "all"), {-1, -1});
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  for (int layer = 0; layer < shape.layers; ++layer) {
    side.layers.push_back({{layer, -1}, false, unknown, unknown});
    for (int head = 0; head < shape.heads; ++head)
      side.heads.push_back({{layer, head}, false, unknown, unknown});
  }
  // The places that were run, ascending; of earlier versions, all.
  const auto read = [&](const char* name, std::vector<RescueEffect>& effects, const auto& place) {
    const Json& list = results::array_in(json, name);
    std::size_t next = 0;
    for (const Json& one : list) {
      if (!one.is_object()) throw Wrong("has an effect that is not an object");
      const std::size_t at = place(one);
      if (at < next || at >= effects.size() || (all_known && at != next))
        throw Wrong(fmt::format("does not have the effects of {} in order", name));
      effects[at] = effect(one, effects[at].at);
      next = at + 1;
    }
    if (all_known && next != effects.size())
      throw Wrong("does not have the effects of every layer and head");
  };
  read("layers", side.layers,
       [&](const Json& one) { return static_cast<std::size_t>(index(one, "layer")); });
  read("heads", side.heads, [&](const Json& one) {
    const int layer = index(one, "layer"), head = index(one, "head");
    return layer < shape.layers && head < shape.heads
               ? static_cast<std::size_t>(layer * shape.heads + head)
               : kMost;
  });
  const auto smallest = json.find("smallest");
  if (smallest == json.end() || smallest->is_null()) return side;
  if (!smallest->is_object()) throw Wrong("has a \"smallest\" that is not an object");
  side.smallest.emplace();
  for (const Json& head : results::array_in(*smallest, "heads")) {
    if (!head.is_array() || head.size() != 2) throw Wrong("has a head that is not two numbers");
    side.smallest->push_back(
        {index(head[0], "layer", shape.layers - 1.0), index(head[1], "head", shape.heads - 1.0)});
  }
  if (smallest->find("minimal") != smallest->end()) side.minimal = truth(*smallest, "minimal");
  return side;
}
}  // namespace

int RescueSide::known_heads() const {
  return static_cast<int>(std::count_if(heads.begin(), heads.end(),
                                        [](const RescueEffect& head) { return head.is_known(); }));
}

int RescueResults::set_within() const {
  if (!keep.smallest) return 0;
  std::size_t within = 0;
  for (const HeadIndex& head : *keep.smallest) {
    const double own = predicted[index(head)];
    if (std::isnan(own)) return static_cast<int>(predicted.size());
    std::size_t place = 1;  // of equals, those that stand first are first
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      if (predicted[i] > own || (predicted[i] == own && i < index(head))) ++place;
    }
    within = std::max(within, place);
  }
  return static_cast<int>(within);
}

RescueResults rescue_results(const Json& json) {
  RescueResults all;
  const Json& settings = results::object_in(json, "settings");
  all.policy = results::word(settings, "policy");
  all.budget = index(settings, "budget");
  for (const Json& token : results::array_in(settings, "tokens"))
    all.tokens.push_back(index(token, "tokens", double{kMost}));
  for (const char* part : {"expected", "full", "policy", "keep", "drop", "predicted"}) {
    if (json.find(part) == json.end())
      throw Wrong("is not complete; run the same command again, which continues it");
  }
  all.expected = results::optional_word(results::object_in(json, "expected"), "text");
  const Json& full = results::object_in(json, "full");
  all.full_says = results::optional_word(full, "says");
  all.full_logprob = results::number(full, "logprob", -kAnyLogprob, kAnyLogprob);
  const Json& policy = results::object_in(json, "policy");
  all.policy_says = results::optional_word(policy, "says");
  all.policy_logprob = results::number(policy, "logprob", -kAnyLogprob, kAnyLogprob);
  all.policy_right = truth(policy, "right");
  const Shape shape = shape_of(json);
  const bool all_known = json.find("shape") == json.end();
  all.keep = side(results::object_in(json, "keep"), shape, all_known);
  all.drop = side(results::object_in(json, "drop"), shape, all_known);
  const Json& predicted = results::object_in(json, "predicted");
  all.predicted.assign(all.keep.heads.size(), std::numeric_limits<double>::quiet_NaN());
  for (const Json& head : results::array_in(predicted, "heads")) {
    if (!head.is_object()) throw Wrong("has a prediction that is not an object");
    const HeadIndex at{index(head, "layer"), index(head, "head")};
    if (at.layer >= all.layers() || at.head >= all.heads())
      throw Wrong("predicts a head that the model does not have");
    all.predicted[all.index(at)] =
        head.contains("blame") ? results::optional_number(head, "blame", -kAnyLogprob, kAnyLogprob)
                               : results::optional_number(head, "loss", 0.0, kAnyLogprob);
  }
  if (const std::string by = results::optional_word(predicted, "by"); !by.empty()) {
    all.predicted_by = by;
  }
  all.rank_correlation = results::optional_number(predicted, "rank_correlation", -1.0, 1.0);
  return all;
}

}  // namespace kvloupe
