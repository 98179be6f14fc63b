#include "analysis/evaluation/rescue_results.h"

#include <fmt/format.h>

#include <limits>

#include "analysis/evaluation/results_json.h"

namespace kvloupe {

namespace {
using results::Json;
using results::Wrong;

constexpr double kAnyNumber = std::numeric_limits<double>::max();
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
  return {at, truth(json, "right"), results::number(json, "logprob", -kAnyNumber, kAnyNumber),
          results::number(json, "gain", -kAnyNumber, kAnyNumber)};
}

RescueSide side(const Json& json) {
  RescueSide side;
  side.all = effect(results::object_in(json, "all"), {-1, -1});
  const Json& layers = results::array_in(json, "layers");
  const Json& heads = results::array_in(json, "heads");
  if (layers.empty() || layers.size() > kMost || heads.size() > kMost || heads.empty() ||
      heads.size() % layers.size() != 0) {
    throw Wrong("does not have the effects of every layer and head");
  }
  for (const Json& layer : layers) {
    const int at = static_cast<int>(side.layers.size());
    side.layers.push_back(effect(layer, {at, -1}));
    if (index(layer, "layer") != at) throw Wrong("does not have the effects of layers in order");
  }
  const int per_layer = static_cast<int>(heads.size() / layers.size());
  for (const Json& head : heads) {
    const int at = static_cast<int>(side.heads.size());
    side.heads.push_back(effect(head, {at / per_layer, at % per_layer}));
    if (index(head, "layer") != at / per_layer || index(head, "head") != at % per_layer)
      throw Wrong("does not have the effects of heads in order");
  }
  const auto smallest = json.find("smallest");
  if (smallest == json.end() || smallest->is_null()) return side;
  if (!smallest->is_object()) throw Wrong("has a \"smallest\" that is not an object");
  side.smallest.emplace();
  for (const Json& head : results::array_in(*smallest, "heads")) {
    if (!head.is_array() || head.size() != 2) throw Wrong("has a head that is not two numbers");
    side.smallest->push_back({index(head[0], "layer", static_cast<double>(layers.size()) - 1.0),
                              index(head[1], "head", static_cast<double>(per_layer) - 1.0)});
  }
  return side;
}
}  // namespace

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
  all.full_logprob = results::number(full, "logprob", -kAnyNumber, kAnyNumber);
  const Json& policy = results::object_in(json, "policy");
  all.policy_says = results::optional_word(policy, "says");
  all.policy_logprob = results::number(policy, "logprob", -kAnyNumber, kAnyNumber);
  all.policy_right = truth(policy, "right");
  all.keep = side(results::object_in(json, "keep"));
  all.drop = side(results::object_in(json, "drop"));
  if (all.keep.layers.size() != all.drop.layers.size() ||
      all.keep.heads.size() != all.drop.heads.size())
    throw Wrong("has other heads in \"keep\" than in \"drop\"");
  const Json& predicted = results::object_in(json, "predicted");
  all.predicted.assign(all.keep.heads.size(), std::numeric_limits<double>::quiet_NaN());
  for (const Json& head : results::array_in(predicted, "heads")) {
    if (!head.is_object()) throw Wrong("has a prediction that is not an object");
    const HeadIndex at{index(head, "layer"), index(head, "head")};
    if (at.layer >= all.layers() || at.head >= all.heads())
      throw Wrong("predicts a head that the model does not have");
    all.predicted[all.index(at)] =
        head.contains("blame") ? results::optional_number(head, "blame", -kAnyNumber, kAnyNumber)
                               : results::optional_number(head, "loss", 0.0, kAnyNumber);
  }
  if (const std::string by = results::optional_word(predicted, "by"); !by.empty()) {
    all.predicted_by = by;
  }
  all.rank_correlation = results::optional_number(predicted, "rank_correlation", -1.0, 1.0);
  return all;
}

}  // namespace kvloupe
